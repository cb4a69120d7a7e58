"""Import this first: a framework then reaches nothing but this machine, and whoever tries gets an error that says so."""

import ipaddress
import sys


def stays_here(event, args):
    if event == "socket.connect":
        host = args[1][0] if isinstance(args[1], tuple) else None
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    if isinstance(host, bytes):
        host = host.decode()
    if host and host != "localhost" and not ipaddress.ip_address(host).is_loopback:
        raise PermissionError(f"{event} to {host} in a test that needs this machine alone")


sys.addaudithook(stays_here)
