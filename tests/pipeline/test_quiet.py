"""What libraries say goes to the log."""

import subprocess
import sys

CODE = """
import sys, threading
from pipeline import quiet
quiet.python_logs_to(sys.argv[1], debug=False)
def hang_up(): raise RuntimeError("hung up")
thread = threading.Thread(target=hang_up, name="reader")
thread.start()
thread.join()
"""


def test_an_error_of_a_thread_is_in_the_log_and_not_on_the_terminal(tmp_path):
    log = tmp_path / "log.txt"
    process = subprocess.run([sys.executable, "-c", CODE, str(log)], capture_output=True, text=True, check=True)
    assert "hung up" not in process.stderr + process.stdout
    assert "reader ended with an error" in log.read_text()
    assert "RuntimeError: hung up" in log.read_text()
