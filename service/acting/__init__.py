"""Where people and launchers order, and the loop that acts: the organs of acting, joined."""
