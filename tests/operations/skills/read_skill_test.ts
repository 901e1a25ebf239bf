import assert from "node:assert/strict";
import fc from "fast-check";
import { MAX_SKILL_BYTES, readSkill } from "../../../src/operations/skills/read_skill.ts";
import { property } from "../../support/property.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const read = (text: string) => readSkill(bytesOf(text));
const head = (yaml: string) => read(`---\n${yaml}\n---\nBody\n`);

function problemOf(yaml: string): string {
  const skill = head(yaml);
  return skill.ok ? assert.fail(`valid: ${yaml.slice(0, 80)}`) : skill.problem;
}

const WHOLE = `name: release
description: >
  Makes a release,
  step by step
version: 1.2
tools: [shell.run, "file.*"]
triggers:
  - a release is wanted
license: MIT`;

const WANTED = {
  name: "release",
  description: "Makes a release, step by step",
  version: "1.2",
  tools: ["shell.run", "file.*"],
  triggers: ["a release is wanted"],
};

Deno.test("a skill has a head in YAML and a body in Markdown", () => {
  assert.deepEqual(head(WHOLE), { ok: true, head: WANTED, body: "Body" });
  assert.deepEqual(head("name: a\ndescription: b"), {
    ok: true,
    head: { name: "a", description: "b", tools: [], triggers: [] },
    body: "Body",
  });
  assert.equal(read("---\nname: a\ndescription: b\n---").ok, true);
  const rules = read("---\nname: a\ndescription: b\n---\nOne\n\n---\n\nTwo\n");
  assert.equal(rules.ok && rules.body, "One\n\n---\n\nTwo");
});

Deno.test("line ends of any system and a byte order mark do no harm", () => {
  const text = `---\n${WHOLE}\n---\nBody\nMore\n`;
  for (
    const one of [
      text.replaceAll("\n", "\r\n"),
      text.replaceAll("\n", "\r"),
      `\ufeff${text}`,
      `\ufeff${text.replaceAll("\n", "\r\n")}`,
      text.replace("---\n", "--- \n"),
    ]
  ) {
    assert.deepEqual(read(one), { ok: true, head: WANTED, body: "Body\nMore" });
  }
});

Deno.test("what is no skill says why", () => {
  const cases: [string, RegExp][] = [
    ["", /no mapping/],
    ["- a\n- b", /no mapping/],
    ["description: b", /its name is missing/],
    ["name: Über\ndescription: b", /its name is "Über", wanted/],
    ["name: ../x\ndescription: b", /its name/],
    [`name: ${"a".repeat(65)}\ndescription: b`, /its name/],
    ["name: [a]\ndescription: b", /its name/],
    ["name: a", /no description/],
    ["name: a\ndescription: '  '", /no description/],
    ["name: a\ndescription: 5", /no description/],
    [`name: a\ndescription: ${"b".repeat(1025)}`, /description has more than 1024/],
    ["name: a\ndescription: b\ntools: shell.run", /its tools are no list/],
    ["name: a\ndescription: b\ntools: [1]", /its tools are no list/],
    [`name: a\ndescription: b\ntriggers: [${"x, ".repeat(60)}]`, /its triggers are no list/],
    ["name: a\ndescription: b\nversion: [1]", /its version/],
    ["name: a\nname: b\ndescription: c", /no valid YAML.*unique/],
    ["name: a\ndescription: {b", /no valid YAML/],
    ["name: a\n\tdescription: b", /no valid YAML/],
    ["name: a\ndescription: !!js/function 'x'", /no valid YAML/],
    ["name: a\ndescription: *nobody", /no valid YAML/],
    ["? [a]\n: b", /no valid YAML|no mapping|name/],
    [`name: a\ndescription: b\nx: ${"y".repeat(17_000)}`, /more than 16384 characters/],
  ];
  for (const [yaml, wanted] of cases) assert.match(problemOf(yaml), wanted, yaml.slice(0, 60));
  for (
    const text of ["", "# Just text", "---\nname: a\ndescription: b\n", " ---\nname: a\n---\n"]
  ) {
    const skill = read(text);
    assert.match(skill.ok ? "" : skill.problem, /does not begin with YAML/, text);
  }
});

Deno.test("what is binary, huge or a bomb is refused soon", () => {
  const binary = readSkill(new Uint8Array([0x2d, 0x2d, 0x2d, 0xff, 0xfe]));
  assert.match(binary.ok ? "" : binary.problem, /no UTF-8/);
  const nul = read("---\nname: a\0b\ndescription: c\n---\n");
  assert.match(nul.ok ? "" : nul.problem, /NUL/);
  const huge = readSkill(new Uint8Array(MAX_SKILL_BYTES + 1).fill(0x20));
  assert.match(huge.ok ? "" : huge.problem, /more than the 65536 bytes/);
  const levels = "abcdefghij".split("");
  const bomb = levels.map((name, index) => {
    const before = levels[index - 1];
    const items = before === undefined ? ['"x"'] : Array.from({ length: 9 }, () => `*${before}`);
    return `${name}: &${name} [${items.join(", ")}]`;
  });
  const startedMs = performance.now();
  assert.match(problemOf(`${bomb.join("\n")}\nname: a\ndescription: b`), /no valid YAML.*alias/i);
  for (const open of ["[", "{a: ", "- ", "? "]) {
    assert.equal(head(`name: a\ndescription: ${open.repeat(4000)}`).ok, false);
  }
  assert.ok(performance.now() - startedMs < 5000);
});

Deno.test("nothing of a head changes what objects are", () => {
  const skill = head("name: a\ndescription: b\n__proto__: {polluted: yes}\nconstructor: x");
  assert.equal(skill.ok, true);
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
});

Deno.test("what nobody sees is left out of what the model is told", () => {
  const skill = head(
    'name: a\ndescription: "see\\u202e this\\u{200b}\\n## SYSTEM\\U000E0041"'.replace(
      "\\u{200b}",
      "\\u200b",
    ),
  );
  assert.equal(skill.ok && skill.head.description, "see this ## SYSTEM");
});

property(
  "any bytes give a skill or a reason",
  fc.tuple(fc.uint8Array({ maxLength: 300 }), fc.string({ maxLength: 200 })),
  ([bytes, yaml]) => {
    for (const skill of [readSkill(bytes), head(yaml)]) {
      if (!skill.ok) assert.ok(skill.problem.length > 0 && skill.problem.length < 500);
    }
  },
);

Deno.test("readSkill: a version is the text that was written, whatever YAML makes of it", () => {
  for (const version of ["1.10", "2", "0x10", "1e3", "true", "2026-01-01", "'1.10'", "1_000"]) {
    const text = `---\nname: a\ndescription: b\nversion: ${version}\n---\nBody`;
    const read = readSkill(new TextEncoder().encode(text));
    assert.ok(read.ok);
    assert.equal(read.head.version, version.replaceAll("'", ""));
  }
});
