import assert from "node:assert/strict";
import { argumentNames, likelySecrets } from "../../src/telemetry/likely_secret.ts";

Deno.test("likelySecrets: credentials are known by their name or their form", () => {
  const cases: [string, string[], string[]][] = [
    ["s3cret-value", ["API_KEY"], ["s3cret-value"]],
    ["Bearer abcdefgh", ["Authorization"], ["Bearer abcdefgh", "abcdefgh"]],
    ["hunter2hunter2", ["DB_PASSWORD"], ["hunter2hunter2"]],
    ["/4n+bas64/secret==", ["TOKEN"], ["/4n+bas64/secret=="]],
    ["ghp_16C7e42F292c6912E7710c838347Ae178B4a", [], ["ghp_16C7e42F292c6912E7710c838347Ae178B4a"]],
    ["postgres://u:pa55word%21@db/x", [], ["pa55word%21", "pa55word!"]],
    ["https://mcp.example/sse?api_key=abcdefgh1&x=1", [], ["abcdefgh1"]],
    ["https://tok_0123456789abcdef@host/x", [], ["tok_0123456789abcdef"]],
    ["Authorization: Bearer abcdefgh", [], ["Bearer abcdefgh", "abcdefgh"]],
  ];
  for (const [value, names, wanted] of cases) {
    assert.deepEqual([...new Set(likelySecrets(value, names))], wanted, value);
  }
});

Deno.test("likelySecrets: what results of tools are made of is no credential", () => {
  const cases: [string, string[]][] = [
    ["/home/joe2/projects/loophub-2026", ["ROOT"]],
    ["/home/joe/.ssh/id_rsa", ["SSH_KEY"]],
    ["/etc/secrets.json", ["GOOGLE_APPLICATION_CREDENTIALS_FILE"]],
    ["C:\\Users\\joe\\work2026", ["FOLDER"]],
    ["https://github.example.com/api/v3", ["HOST"]],
    ["us-east-1", ["REGION"]],
    ["production", ["ENVIRONMENT"]],
    ["joe.1980.example@example.com", ["USER_EMAIL"]],
    ["true", ["USE_TOKEN"]],
    ["--verbose", []],
    ["a sentence of 16 words and more", []],
  ];
  for (const [value, names] of cases) assert.deepEqual(likelySecrets(value, names), [], value);
});

Deno.test("argumentNames: an argument has the name of its flag, or of the flag before it", () => {
  assert.deepEqual(argumentNames("--token=abc=d", undefined), { name: "token", value: "abc=d" });
  assert.deepEqual(argumentNames("abc", "--api-key"), { name: "api-key", value: "abc" });
  assert.deepEqual(argumentNames("abc", "--mode=x"), { name: "", value: "abc" });
  assert.deepEqual(argumentNames("API_KEY=abc", "-e"), { name: "API_KEY", value: "abc" });
  assert.deepEqual(argumentNames("abc", undefined), { name: "", value: "abc" });
});
