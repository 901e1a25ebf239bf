import assert from "node:assert/strict";
import fc from "fast-check";
import { toHubError } from "../../src/core/error.ts";
import { boundaryOf, MultipartScan } from "../../src/wire/multipart.ts";
import { property } from "../support/property.ts";

const encoder = new TextEncoder();

/** What a scan finds in a body that comes in these pieces; the refusal's message when it is refused. */
function scan(
  body: Uint8Array,
  sizes: readonly number[] = [],
): { text: string; from: number } | string | null {
  const scan = new MultipartScan("b", "model");
  try {
    let at = 0;
    for (const size of [...sizes, body.length]) {
      scan.push(body.slice(at, at + size));
      at = Math.min(body.length, at + size);
    }
    scan.end();
  } catch (error) {
    return toHubError(error).message;
  }
  return scan.found === null ? null : { text: scan.found.text, from: scan.found.span.from };
}

const text = (body: string, sizes?: readonly number[]) => scan(encoder.encode(body), sizes);
const MODEL = 'Content-Disposition: form-data; name="model"';
const part = (head: string, value: string) => `--b\r\n${head}\r\n\r\n${value}\r\n`;
const END = "--b--\r\n";

const cases = fc.record({
  before: fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 3 }),
  model: fc.string({ unit: "grapheme", maxLength: 20 }),
  behind: fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 3 }),
  sizes: fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 40 }),
});

property("however a form is cut, the model is found where it stands", cases, (one) => {
  const file = (bytes: Uint8Array) => [
    ...encoder.encode('--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'),
    ...bytes,
    ...encoder.encode("\r\n"),
  ];
  const head = encoder.encode(`--b\r\n${MODEL}\r\n\r\n`);
  const front = one.before.flatMap(file);
  const value = encoder.encode(one.model);
  const body = new Uint8Array([
    ...front,
    ...head,
    ...value,
    13,
    10,
    ...one.behind.flatMap(file),
    ...encoder.encode(END),
  ]);
  const whole = scan(body);
  assert.deepEqual(scan(body, one.sizes), whole);
  assert.deepEqual(scan(body, Array(body.length).fill(1)), whole);
  const holdsDelimiter = [...one.before, ...one.behind, value]
    .some((bytes) => new TextDecoder("latin1").decode(bytes).includes("--b"));
  if (!holdsDelimiter) {
    assert.deepEqual(whole, { text: one.model, from: front.length + head.length });
  }
});

Deno.test("names are read as the known clients write them", () => {
  const names = [
    MODEL,
    "content-disposition: form-data; name=model",
    'CONTENT-DISPOSITION:form-data;name="model"',
    `Content-Type: text/plain; charset=utf-8\r\n${MODEL}`,
  ];
  for (const head of names) {
    assert.deepEqual(
      (text(part(head, "m/ä") + END) as { text: string }).text,
      "m/ä",
      head,
    );
  }
  const files = [
    'Content-Disposition: form-data; name="file"; filename="mo\\"del"; filename*=utf-8\'\'model',
    "Content-Disposition: form-data; name=file; filename=model",
    'Content-Disposition: form-data; name="models"',
    'Content-Disposition: form-data; name="Model"',
  ];
  for (const head of files) assert.equal(text(part(head, "x") + END), null, head);
  assert.equal(text(part(files[0] ?? "", "x") + "--b--"), null, "no line end behind the last");
});

Deno.test("what two readers could read in two ways is refused", () => {
  const bad: Record<string, string> = {
    "two models": part(MODEL, "a") + part(MODEL, "b") + END,
    "a preamble": `x\r\n${part(MODEL, "a")}${END}`,
    "an epilogue": `${part(MODEL, "a")}${END}--b\r\n`,
    "no end": part(MODEL, "a"),
    "nothing": "",
    "no parts": "--b--\r\n",
    "a bare line feed": `--b\n${MODEL}\n\na\n--b--\n`,
    "a line feed before a boundary": `--b\r\n${MODEL}\r\n\r\na\n--b--\r\n`,
    "space behind a boundary": `--b \r\n${MODEL}\r\n\r\na\r\n--b--\r\n`,
    "a longer boundary": `--bb\r\n${MODEL}\r\n\r\na\r\n--bb--\r\n`,
    "no line of its own": part(MODEL, "a") + "--b\r\nX: 1\r\n\r\n--b--\r\n",
    "a folded header": part('Content-Disposition: form-data;\r\n name="model"', "a") + END,
    "an encoded name": part("Content-Disposition: form-data; name*=utf-8''model", "a") + END,
    "an escaped name": part('Content-Disposition: form-data; name="mo\\del"', "a") + END,
    "two names": part('Content-Disposition: form-data; name="x"; name="model"', "a") + END,
    "two dispositions": part(`${MODEL}\r\nContent-Disposition: form-data; name="x"`, "a") + END,
    "no disposition": part("Content-Type: text/plain", "a") + END,
    "another parameter": part('Content-Disposition: form-data; n="1"; name="model"', "a") + END,
    "an attachment": part('Content-Disposition: attachment; name="model"', "a") + END,
    "a model that is a file": part(`${MODEL}; filename="m"`, "a") + END,
    "a model in base64": part(`${MODEL}\r\nContent-Transfer-Encoding: base64`, "YQ==") + END,
    "a NUL": part('Content-Disposition: form-data; name="model\0"', "a") + END,
    "a long model": part(MODEL, "m".repeat(1025)) + END,
    "a long header": part(`X: ${"x".repeat(9000)}\r\n${MODEL}`, "a") + END,
  };
  for (const [what, body] of Object.entries(bad)) {
    for (const sizes of [[], [1], Array(body.length).fill(1)]) {
      assert.equal(typeof text(body, sizes), "string", what);
    }
  }
});

Deno.test("content types and their boundaries", () => {
  assert.equal(boundaryOf("multipart/form-data; boundary=a"), "a");
  assert.equal(boundaryOf('Multipart/Form-Data;boundary="a b:c"'), "a b:c");
  for (
    const [type, code] of [
      [null, "unsupported_media_type"],
      ["text/plain", "unsupported_media_type"],
      ["multipart/mixed; boundary=a", "unsupported_media_type"],
      ["multipart/form-data", "invalid_request"],
      ["multipart/form-data; boundary=", "invalid_request"],
      ["multipart/form-data; boundary=a; boundary=b", "invalid_request"],
      ["multipart/form-data; charset=x; boundary=b", "invalid_request"],
      ['multipart/form-data; boundary="a "', "invalid_request"],
      ["multipart/form-data; boundary=ä", "invalid_request"],
      [`multipart/form-data; boundary=${"a".repeat(71)}`, "invalid_request"],
    ] as const
  ) {
    assert.throws(() => boundaryOf(type), (error) => toHubError(error).code === code, String(type));
  }
});

Deno.test("watch: names that have come are checked at once, and each that comes", () => {
  const scan = new MultipartScan("b", "model");
  const field = (name: string) =>
    encoder.encode(part(`Content-Disposition: form-data; name="${name}"`, "x"));
  const names: string[] = [];
  scan.push(field("model"));
  scan.push(field("prompt"));
  scan.watch((name) => {
    names.push(name);
    if (name === "Model") throw new Error("refused");
  });
  assert.deepEqual(names, ["model", "prompt"]);
  assert.throws(() => scan.push(field("Model")), /refused/);
});
