"""Helpers of the Makefile and of the test run; nothing here is part of the installed package."""
