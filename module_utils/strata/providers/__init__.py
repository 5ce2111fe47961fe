"""The providers: what makes hosts, each a package of this folder with what its role needs of code.

A provider runs on the controller. Its role has its name and four entry points, and the stages call
these and nothing else; docs/design.md says what each is given, and what it answers.
"""
