import assert from "node:assert/strict";
import {
  describeFailure,
  describeToClient,
  lostInCall,
  unavailable,
} from "../../src/mcp/failure.ts";

const REFUSED =
  "error sending request for url (http://10.1.2.3:4711/mcp): client error (Connect): tcp connect error: Connection refused (os error 111)";

Deno.test("describeToClient: a connection that failed does not tell where the server is", () => {
  const error = new TypeError(REFUSED);
  assert.match(describeFailure(error), /10\.1\.2\.3:4711/, "operators see it");
  assert.match(describeToClient(error), /^error sending request for url \(\[address\]\)/);
  for (const failed of [unavailable, lostInCall]) {
    const { message } = failed("files", { reason: REFUSED, cause: error });
    assert.match(message, /files/);
    assert.doesNotMatch(message, /10\.1|4711/);
  }
});

Deno.test("describeToClient: what the server itself answers stays", () => {
  const error = Object.assign(new Error("Nothing is at https://docs.example/page"), {
    code: -32602,
  });
  assert.equal(describeToClient(error), "Nothing is at https://docs.example/page");
});
