"""The dashboard's server sends at once what it has to send: its connections wait for no acknowledgement."""

import inspect
import socket

import service.pages.__main__ as server


def test_streamlits_socket_is_made_so_that_what_it_accepts_sends_at_once() -> None:
    from streamlit.web.server.starlette import starlette_server

    listener = server.at_once(starlette_server._bind_socket)("127.0.0.1", 0, 5)
    listener.setblocking(True)
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_it_is_the_socket_that_the_server_binds() -> None:
    from streamlit.web.server.starlette import starlette_server

    assert "_bind_socket(" in inspect.getsource(starlette_server._bind_server_socket)
