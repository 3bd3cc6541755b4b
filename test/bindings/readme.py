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
before, ran = "", 0
for place, (skipped, kind, code) in enumerate(blocks):
    if kind != language or skipped:
        continue
    follower = blocks[place + 1] if place + 1 < len(blocks) else (None, "", "")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / ("main" + suffix)
        path.write_text(before + ("print('\\f', end='')\n" if before else "") + code)
        job = subprocess.run([word.replace("{}", str(path)) for word in command], cwd=folder, capture_output=True, text=True)
    printed = job.stdout.split("\f")[-1]
    if job.returncode != 0:
        sys.exit(f"{readme}: this block fails:\n{code}\n{job.stderr}")
    if follower[1] == "text" and follower[2] != printed:
        sys.exit(f"{readme}: this block\n{code}\nprints\n{printed}\nand not\n{follower[2]}")
    ran += 1
    if language == "python":
        before += code
if ran == 0:
    sys.exit(f"{readme} has no block of {language}")
