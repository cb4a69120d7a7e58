#!/usr/bin/env python3
"""Runs a2a-lint --live on an agent of A2A 0.3, alone and through the proxy: nothing may be found that the agent alone has not.

    lint.py --agent AGENT_URL PROXY_URL -- A2A-LINT
"""

import argparse
import json
import subprocess
import sys

# What may be found through the proxy only, or not through it, as (level, field, message): nothing so far.
EXPECTED = set()

FIELDS = ("level", "field", "message")


def linted(command, url):
    ran = subprocess.run([*command, "--live", "--json", url], capture_output=True, text=True, timeout=60)
    report = json.loads(ran.stdout.replace(url, "URL"))
    found = {tuple(one[field] for field in FIELDS) for one in report.get("findings", [])}
    return ran.returncode, report, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--agent", required=True)
    cut = sys.argv.index("--")
    options, command = parser.parse_args(sys.argv[1:cut]), sys.argv[cut + 1 :]
    (code, alone, before), (through_code, through, after) = (linted(command, url) for url in (options.agent, options.url))
    checks = [
        ("the agent is read, and both live probes ran", alone["ok"] and "liveRoundTripMs" in alone and alone["streamEvents"], alone),
        ("it is through the proxy too", "liveRoundTripMs" in through, through),
        ("the same findings", before ^ after == EXPECTED, sorted(before ^ after)),
        ("as many events in a stream", through.get("streamEvents") == alone["streamEvents"], through),
        ("the same verdict", (through_code, through["summary"]) == (code, alone["summary"]), through),
    ]
    for name, good, detail in checks:
        print(f"ok    {name}" if good else f"FAIL  {name}: {detail}")
    failed = sum(not good for _, good, _ in checks)
    print(f"# {len(checks) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
