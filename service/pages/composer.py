"""The form that ends in a command to copy: how a job is submitted. Effects: it draws."""

import streamlit as st

from service.pages.compose import SIGNALS, Unclear, Wish, composed

SIZES = {"whole": "Whole GPUs", "share": "A share of one"}


def composer() -> None:
    """The form, folded away until somebody wants it."""
    with st.expander("Submit a job", icon=":material/terminal:", key="composer"):
        st.caption(
            "A job runs as whoever starts it, with their files and rights, so it is started in your own "
            "shell: choose here, copy the line, and run it where the job's files are."
        )
        told = composed(_wish())
        if isinstance(told, Unclear):
            st.info(" ".join(told.problems), icon=":material/edit:")
        else:
            st.code(told, language="shell", wrap_lines=True)
            st.caption("It waits in the queue with a line that says what for; Ctrl-C takes it back.")


def _wish() -> Wish:
    command = st.text_input("Command", key="wish-command", placeholder="python train.py --epochs 90")
    first, second, third = st.columns(3)
    project = first.text_input("Project", key="wish-project", placeholder="vision")
    name = second.text_input("Name", key="wish-name", placeholder="resnet-sweep")
    memory = third.text_input("Memory on each GPU", key="wish-memory", placeholder="12GiB, if you know it")
    first, second, third = st.columns(3, vertical_alignment="bottom")
    size = first.segmented_control(
        "GPUs",
        list(SIZES),
        default="whole",
        key="wish-size",
        format_func=lambda size: SIZES[size],
        required=True,
    )
    low, high, share = 1, 1, 1.0
    if size == "share":
        share = second.slider("Share", 0.1, 0.9, 0.5, 0.1, key="wish-share")
    else:
        low = second.number_input("At least", 1, 1024, 1, key="wish-low")
        high = third.number_input("At most", 1, 1024, 1, key="wish-high", help="More than at least: elastic")
    first, second, third = st.columns(3, vertical_alignment="bottom")
    priority = first.number_input("Priority", -1000, 1000, 0, key="wish-priority")
    signal = second.selectbox(
        "Checkpoints on signal", SIGNALS, index=None, key="wish-signal", placeholder="It does not"
    )
    restarts = third.number_input("Restarts after a failure", 0, 100, 0, key="wish-restarts")
    with st.container(horizontal=True):
        interactive = st.checkbox("Somebody sits at it", key="wish-interactive")
        elastic = st.checkbox("It uses fallow", key="wish-elastic", help="Resized while it runs")
        preemptible = st.checkbox("May be paused for others", key="wish-preemptible")
        detach = st.checkbox("Run on without the terminal", key="wish-detach")
    return Wish(
        command=command or "",
        project=(project or "").strip(),
        name=(name or "").strip(),
        min_gpus=int(low),
        max_gpus=max(int(high), int(low)) if high == 1 else int(high),
        share=float(share),
        memory=(memory or "").strip(),
        priority=int(priority),
        interactive=bool(interactive),
        preemptible=bool(preemptible),
        elastic=bool(elastic),
        signal=signal,
        restarts=int(restarts),
        detach=bool(detach),
    )
