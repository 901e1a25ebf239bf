import assert from "node:assert/strict";
import { parseBaseUrl } from "../../src/config/base_url.ts";
import { readStoredProvider } from "../../src/config/stored_provider.ts";

Deno.test("addresses behind which no model is are refused, however they are written", () => {
  const refused = [
    "169.254.169.254",
    "169.254.0.1",
    "2852039166",
    "0xA9FEA9FE",
    "0251.0376.0251.0376",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[fe80::1]",
    "[febf::1]",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "0.0.0.0",
    "0",
    "[::]",
    "224.0.0.1",
    "255.255.255.255",
    "[ff02::1]",
    "METADATA.google.internal",
    "metadata.google.internal.",
  ];
  for (const host of refused) {
    const parsed = parseBaseUrl(`http://${host}/v1`, "openai-compatible");
    assert.equal(parsed.ok, false, host);
  }
  const fine = [
    "127.0.0.1:8000",
    "10.0.0.7",
    "[::1]:1",
    "[fd00::7]",
    "192.168.1.2",
    "api.test",
    "100.64.0.1",
  ];
  for (const host of fine) {
    assert.equal(parseBaseUrl(`http://${host}/v1`, "openai-compatible").ok, true, host);
  }
});

Deno.test("a stored provider follows the rules of the file, and no text of a problem has its key", () => {
  const key = "sk-not-for-anybodys-eyes";
  const good = readStoredProvider("one", { kind: "openai", apiKey: key });
  assert.ok(good.ok);
  assert.equal(good.provider.baseUrl, "https://api.openai.com/v1");
  assert.equal(good.provider.maxRetries, 2);
  const wrong = [
    { baseUrl: "http://127.0.0.1/v1", apiKey: `${key} ` },
    { baseUrl: "http://127.0.0.1/v1", apiKey: { value: key } },
    { baseUrl: "http://127.0.0.1/v1", apiKey: [key] },
    { baseUrl: "http://127.0.0.1/v1", apiKeys: [key] },
    { baseUrl: "http://127.0.0.1/v1", secret: key },
    { baseUrl: `http://x:${key}@127.0.0.1/v1` },
    { baseUrl: "http://127.0.0.1/v1", headers: { "content-length": key } },
    { baseUrl: "http://127.0.0.1/v1", headers: key },
  ];
  for (const settings of wrong) {
    const read = readStoredProvider("one", settings);
    assert.ok(!read.ok, JSON.stringify(settings));
    assert.match(read.message, /^providers\.one/);
    assert.ok(!JSON.stringify(read).includes(key), read.message);
  }
  assert.equal(readStoredProvider("__proto__", { kind: "demo" }).ok, false);
  assert.equal(readStoredProvider("", { kind: "demo" }).ok, false);
});
