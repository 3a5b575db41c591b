"""Who a visitor is, and whether the buttons work for them. Effects: it draws, and keeps who signed in.

The dashboard is started by one person and can be opened by everybody on the machine, so nobody acts before
signing in, and who signs in acts as themselves:

* with the code that ``fallow up --allow-acting`` prints in the terminal of whoever started the dashboard:
  as that person, whose user this process runs as;
* with a token of their own (``fallow token add``): as the user that the service issued it to.

It is kept for one browser window, in this process's memory, and never in the address or a cookie: another
page in the same browser has nothing to ride on. Without a code the dashboard only reads.
"""

import hmac
import os
from dataclasses import dataclass

import streamlit as st

from service.client import ClientError
from service.client.jobs import connect_acting
from service.data_folder import CODE_VARIABLE
from service.pages.data import jobs
from service.pages.data.jobs import SIGNED, Visitor
from service.pages.parts.widgets import plain, spoken
from service.reports.on_request import in_file_name

PARAMETER = "code"
LEAST_CODE = 16
READS_ONLY = "This dashboard only reads; `fallow up --allow-acting` starts one that acts for who signs in."
SIGN_IN_FIRST = "Sign in at the top right to use this button."


@dataclass(frozen=True, slots=True, kw_only=True)
class May:
    """Whether a button works for this visitor, and why not."""

    may: bool
    why: str = ""


def acting_allowed() -> bool:
    """Whether this dashboard was started so that visitors may sign in and act."""
    return len(_code()) >= LEAST_CODE


def may_order(*, owner: str | None = None, switch: bool = False) -> May:
    """Whether the visitor may order something of a job of ``owner``, or turn the switch.

    Only so that no button promises what the service will refuse; the service itself decides.
    """
    if not acting_allowed():
        return May(may=False, why=READS_ONLY)
    signed = jobs.visitor()
    if signed is None:
        return May(may=False, why=SIGN_IN_FIRST)
    caller = signed.caller
    if caller.role == "operator":
        return May(may=True)
    if switch:
        return May(may=False, why=f"You are {plain(caller.name)}; only an operator can do this.")
    if caller.role == "viewer":
        return May(may=False, why=f"You are {plain(caller.name)}, who may look and not act.")
    if owner is not None and owner != caller.name:
        return May(may=False, why=f"You are {plain(caller.name)}; this is {plain(owner)}'s.")
    return May(may=True)


def may_read(person: str | None) -> May:
    """Whether the visitor may read what was written for ``person`` alone; ``None`` is somebody unknown.

    A name may be as it stands in the name of a written report.

    A dashboard that nobody can sign in to knows no names, and shows everybody's figures on other pages.
    """
    if not acting_allowed():
        return May(may=True)
    signed = jobs.visitor()
    if signed is None:
        return May(may=False, why="It is one person's own: sign in at the top right to read yours.")
    name = signed.caller.name
    if signed.caller.role == "operator" or person in (name, in_file_name(name)):
        return May(may=True)
    return May(may=False, why=f"You are {plain(name)}; this is somebody else's.")


def readable(value: str) -> bool:
    """Whether it can be a code or a token at all: some printable ASCII without a blank."""
    return bool(value) and value.isascii() and value.isprintable() and " " not in value


def sign_in_by_address() -> None:
    """Take the code out of the address that ``fallow up`` printed, and sign in with it; before any page."""
    secret = st.query_params.get(PARAMETER)
    if secret is None:
        return
    del st.query_params[PARAMETER]
    if acting_allowed():
        _sign_in(secret)


def who() -> None:
    """Who acts in this window, and the way in or out; drawn in the masthead where acting is allowed."""
    if not acting_allowed():
        return
    signed = jobs.visitor()
    if signed is not None:
        with st.popover(plain(signed.caller.name), icon=":material/person:", type="tertiary", key="who"):
            st.markdown(f"Acting as **{plain(signed.caller.name)}**, {plain(signed.caller.role)}.")
            st.caption("It ends with this window. Whatever is done stands in the journal under this name.")
            st.button("Sign out", key="sign-out", on_click=_sign_out)
        return
    with st.popover("Sign in", icon=":material/person:", type="tertiary", key="who"):
        st.markdown(
            "**Reading needs no name; acting does.** Give the code that `fallow up` printed where this "
            "dashboard was started, or a token of your own."
        )
        with st.form("sign-in", border=False, clear_on_submit=True):
            secret = st.text_input("Code or token", type="password", key="sign-in-secret")
            if st.form_submit_button("Sign in"):
                _sign_in(secret.strip())
                if jobs.visitor() is not None:
                    st.rerun()
        if trouble := st.session_state.get("sign-in-trouble"):
            st.error(spoken(trouble))


def _sign_in(secret: str) -> None:
    """Only what was given counts: nothing is never answered with a power that lies about here."""
    st.session_state.pop("sign-in-trouble", None)
    if not readable(secret):
        st.session_state["sign-in-trouble"] = "Not signed in: that is neither a code nor a token."
        return
    try:
        if hmac.compare_digest(secret.encode(), _code().encode()):
            line = connect_acting()
        else:
            line = connect_acting(token=secret)
        st.session_state[SIGNED] = Visitor(caller=line.whoami(), line=line)
    except ClientError as error:
        st.session_state["sign-in-trouble"] = f"Not signed in: {error}"


def _sign_out() -> None:
    st.session_state.pop(SIGNED, None)


def _code() -> str:
    return os.environ.get(CODE_VARIABLE, "")
