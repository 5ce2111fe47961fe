"""Several runs, unattended: `python -m campaign run campaigns/NAME.yml`.

definition.py  what a campaign file may say       state.py   what has happened, kept on disk
play.py        one site.yml through ansible-runner  drive.py   all of them, to the end
status.py      one table of how far they are      boot.py    what starts it at boot
"""
