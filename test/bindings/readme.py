"""Holds a README to its code: each block of ``` LANGUAGE is run, and has to print the text block that
follows it, if one does.

    readme.py README LANGUAGE COMMAND...

COMMAND runs a file; its path takes the place of {} in COMMAND. Blocks of Python go on where those
before them ended. A block that a line <!-- not run --> precedes is left out."""
import pathlib
import re
import subprocess
import sys
import tempfile

readme, language, *command = sys.argv[1:]
suffix = {"python": ".py", "c": ".c"}[language]
blocks = re.findall(r"^(<!-- not run.*?-->\n)?```(\w*)\n(.*?)^```$", pathlib.Path(readme).read_text(),
                    re.MULTILINE | re.DOTALL)
wanted = [place for place, (skipped, kind, _) in enumerate(blocks) if kind == language and not skipped]
if not wanted:
    sys.exit(f"{readme} has no block of {language}")
# One program of all blocks of Python, one of each of C; a form feed parts what they print.
codes = [blocks[place][2] for place in wanted]
programs = ["\nprint('\\f', end='')\n".join(codes)] if language == "python" else codes
printed = []
for code in programs:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / ("main" + suffix)
        path.write_text(code)
        job = subprocess.run([word.replace("{}", str(path)) for word in command], cwd=folder, capture_output=True, text=True)
    if job.returncode != 0:
        sys.exit(f"{readme}: this fails:\n{code}\n{job.stderr}")
    printed += job.stdout.split("\f")
for place, output in zip(wanted, printed, strict=True):
    _, kind, text = blocks[place + 1] if place + 1 < len(blocks) else ("", "", "")
    if kind == "text" and text != output:
        sys.exit(f"{readme}: this block\n{blocks[place][2]}\nprints\n{output}\nand not\n{text}")
