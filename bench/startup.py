"""How long ``make up`` takes, once installed, until the first page is full; simulated cluster, empty store.

Counted from the start of ``fallow up`` until the Overview page, in a headless Chromium that is open already,
has drawn its charts of 14 days and shows no placeholder. Each round begins with an empty folder.

    python bench/startup.py [--json] [--quick]
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TARGET_S = 10.0
LIMIT_S = 120
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHARTS = "[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg.marks"
FULL = f"""() => document.querySelectorAll({json.dumps(CHARTS)}).length >= 3
    && !document.querySelector('[data-testid=stSkeleton], [data-testid=stException]')
    && !document.querySelector('[data-testid=stStatusWidget]')"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one round instead of three")
    options = parser.parse_args()
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("startup: chromium is not installed; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM)
        rounds = [one_round(browser) for _ in range(1 if options.quick else 3)]
        browser.close()
    show(figures(rounds), as_json=options.json)


def one_round(browser: Any) -> tuple[float, float]:
    """Seconds to the printed address, and to the full page."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
        command = [
            sys.executable,
            "-m",
            "service.cli",
            "up",
            "--data",
            f"{folder}/data",
            "--source",
            "simulated",
        ]
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        began = time.monotonic()
        up = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            url = address(up)
            answered_s = time.monotonic() - began
            page.goto(url, wait_until="commit", timeout=LIMIT_S * 1000)
            page.wait_for_function(FULL, timeout=LIMIT_S * 1000, polling=50)
            return answered_s, time.monotonic() - began
        finally:
            page.close()
            up.send_signal(signal.SIGTERM)  # what runs in the background may ignore SIGINT
            up.wait(timeout=60)


def address(up: "subprocess.Popen[str]") -> str:
    """The address that ``fallow up`` prints; exits when it ends without one."""
    assert up.stdout is not None
    for line in up.stdout:
        if "Fallow is up at" in line:
            return line.split(" at ")[1].split()[0]
    sys.exit("startup: `fallow up` ended without printing an address")


def figures(rounds: list[tuple[float, float]]) -> dict[str, dict[str, object]]:
    """The median round against the target."""
    answered_s = statistics.median(answered for answered, _ in rounds)
    full_s = statistics.median(full for _, full in rounds)
    return {
        "up_to_full_page_s": {
            "value": round(full_s, 2),
            "target": TARGET_S,
            "ok": full_s <= TARGET_S,
            "beside": {"address_printed_s": round(answered_s, 2), "rounds": len(rounds)},
        }
    }


def show(found: dict[str, dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found))
        return
    print(f"{'figure':24}{'value':>8}{'target':>8}  ok   beside")
    for name, each in found.items():
        ok = "yes" if each["ok"] else "NO"
        print(f"{name:24}{each['value']:>8}{each['target']:>8}  {ok:4} {each['beside']}")


if __name__ == "__main__":
    main()
