"""Fault injection: releases through the real path under sudden deaths, full disks, cuts and damage, then checked."""
