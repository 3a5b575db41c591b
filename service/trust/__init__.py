"""Who is whom: whom this process believes, who listens at the other end, which uids are one person."""
