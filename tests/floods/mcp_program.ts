// An MCP server over stdio with hostile results. Each call of `grow` gives it a long list of other tools, and it says so.
import { createInterface } from "node:readline";
import process from "node:process";
import { answerOf } from "./mcp_shapes.ts";

let grown = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.method === "tools/call" && message.params.name === "grow") {
    grown++;
    process.stdout.write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n');
  }
  const answer = answerOf(message, { facts: { server: process.pid }, grown });
  if (answer !== null) process.stdout.write(`${answer}\n`);
}
