"""Holds a README to its code: each block of ``` LANGUAGE is run, and has to print the text block that
follows it, if one does. In that, a line of three dots stands for any lines.

    readme.py README LANGUAGE COMMAND...

COMMAND runs a file; its path takes the place of {} in COMMAND. Blocks of Python and of the shell go on
where those before them ended; each of C and C++ is a program of its own. A block that a line
<!-- not run --> precedes is left out."""
import pathlib
import re
import subprocess
import sys
import tempfile

readme, language, *command = sys.argv[1:]
suffix = {"python": ".py", "sh": ".sh", "c": ".c", "cpp": ".cpp"}[language]
# What prints a form feed between two blocks of one program.
joint = {"python": "\nprint('\\f', end='')\n", "sh": "\nprintf '\\f'\n"}.get(language)


def matches(text, output):
    """Whether the README's text stands for what was printed."""
    pattern = "".join("(?:.*\n)*" if line == "...\n" else re.escape(line)
                      for line in text.splitlines(keepends=True))
    return re.fullmatch(pattern, output)


blocks = re.findall(r"^(<!-- not run.*?-->\n)?```(\w*)\n(.*?)^```$", pathlib.Path(readme).read_text(),
                    re.MULTILINE | re.DOTALL)
wanted = [place for place, (skipped, kind, _) in enumerate(blocks) if kind == language and not skipped]
if not wanted:
    sys.exit(f"{readme} has no block of {language}")
codes = [blocks[place][2] for place in wanted]
programs = [joint.join(codes)] if joint else codes
printed = []
for code in programs:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / ("main" + suffix)
        path.write_text(code)
        job = subprocess.run([word.replace("{}", str(path)) for word in command], cwd=folder, capture_output=True, text=True)
    if job.returncode != 0:
        sys.exit(f"{readme}: this fails:\n{code}\n{job.stdout}{job.stderr}")
    printed += job.stdout.split("\f")
for place, output in zip(wanted, printed, strict=True):
    _, kind, text = blocks[place + 1] if place + 1 < len(blocks) else ("", "", "")
    if kind == "text" and not matches(text, output):
        sys.exit(f"{readme}: this block\n{blocks[place][2]}\nprints\n{output}\nand not\n{text}")
