"""The HTTP edge: parse, authorise, call one flow, render. No decisions are taken here."""
