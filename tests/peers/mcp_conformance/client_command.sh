#!/bin/sh
# What the suite starts as the client under test: hands the scenario to the hubs of `run.ts`, and ends as it went there.
exec curl -sS --fail-with-body -H "x-url: $2" -H "x-scenario: $MCP_CONFORMANCE_SCENARIO" \
  --data-binary "${MCP_CONFORMANCE_CONTEXT:-{\}}" "$1"
