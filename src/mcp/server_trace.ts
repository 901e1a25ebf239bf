import type { JSONRPCMessage } from "@modelcontextprotocol/client";

/** Something between the hub and a server, as it was noted. */
export interface TraceEntry {
  /** Counts up for each server, from 1. */
  number: number;
  /** Milliseconds since the epoch. */
  atMs: number;
  kind: "connect" | "connected" | "failed" | "closed" | "sent" | "received" | "stderr";
  text: string;
}

const MAX_ENTRIES = 500;
const MAX_CHARS = 512 * 1024;
const MAX_TEXT = 4096;
/** What is cleaned of a longer text at first, and at most, when so much of it was secret that too little is left to show. */
const LOOKED_AT = 64 * 1024;
const MOST_LOOKED_AT = 1024 * 1024;
/** Longest secret, as it may be written, that the redactor knows and this does not. */
const LONGEST_SECRET = 32 * 1024;
const SHORTEST_SECRET = 4;
const MAX_SECRETS = 200;
const MARK = "[redacted]";

/** What happened last between the hub and one server: bounded, and without secrets. */
export class ServerTrace {
  readonly #now: () => number;
  readonly #redact: (text: string) => string;
  readonly #secrets = new Set<string>();
  #entries: TraceEntry[] = [];
  #chars = 0;
  #count = 0;
  #held = "";

  constructor({ now, redact }: { now: () => number; redact(text: string): string }) {
    this.#now = now;
    this.#redact = redact;
  }

  /** The last entries, oldest first. */
  get entries(): readonly TraceEntry[] {
    return this.#entries;
  }

  /** Texts that no entry shows: values of headers and variables, and credentials with or without their scheme. */
  hide(values: Iterable<string>): void {
    for (const value of values) {
      for (const secret of [value, value.slice(value.lastIndexOf(" ") + 1)]) {
        if (secret.length < SHORTEST_SECRET) continue;
        this.#secrets.delete(secret);
        this.#secrets.add(secret);
      }
    }
    for (const oldest of this.#secrets) {
      if (this.#secrets.size <= MAX_SECRETS) break;
      this.#secrets.delete(oldest);
    }
  }

  note(kind: TraceEntry["kind"], text: string): void {
    const cut = this.#show(text);
    this.#entries.push({ number: ++this.#count, atMs: this.#now(), kind, text: cut });
    this.#chars += cut.length;
    while (this.#entries.length > MAX_ENTRIES || this.#chars > MAX_CHARS) {
      this.#chars -= this.#entries.shift()?.text.length ?? 0;
    }
  }

  /** What came on stderr, noted by whole lines: a secret in pieces would not be known. */
  stderr(text: string): void {
    const held = this.#held + text;
    const end = held.length > 4 * MAX_TEXT ? held.length : held.lastIndexOf("\n") + 1;
    this.#held = held.slice(end);
    const lines = held.slice(0, end).trimEnd();
    if (lines !== "") this.note("stderr", lines);
  }

  message(kind: "sent" | "received", message: JSONRPCMessage): void {
    this.note(kind, JSON.stringify(message));
  }

  /** The beginning of a text without secrets. One that the end of what is looked at cuts in two is not known there: so much is left out. */
  #show(text: string): string {
    const forms = this.#forms();
    const unsure = Math.max(LONGEST_SECRET, ...forms.map(({ length }) => length));
    for (let chars = LOOKED_AT + unsure;; chars *= 2) {
      const clean = this.#clean(text.slice(0, chars), forms);
      if (chars >= text.length && clean.length <= MAX_TEXT) return clean;
      if (chars >= text.length) return cutAt(clean, MAX_TEXT, clean.length);
      const sure = Math.min(MAX_TEXT, Math.max(0, clean.length - unsure));
      if (sure === MAX_TEXT || chars >= MOST_LOOKED_AT) return cutAt(clean, sure, text.length);
    }
  }

  #clean(text: string, forms: readonly string[]): string {
    let clean = text;
    for (const form of forms) clean = clean.replaceAll(form, MARK);
    return this.#redact(clean);
  }

  /** The ways in which hidden texts are written, the longest text first. */
  #forms(): string[] {
    const longestFirst = [...this.#secrets].sort((a, b) => b.length - a.length);
    return longestFirst.flatMap((secret) => {
      const once = JSON.stringify(secret).slice(1, -1);
      return [...new Set([JSON.stringify(once).slice(1, -1), once, secret])];
    });
  }
}

function cutAt(text: string, most: number, chars: number): string {
  return `${text.slice(0, most)}… (${chars} characters)`;
}

/** The traces of those servers that are traced. */
export class ServerTraces {
  readonly #traces = new Map<string, ServerTrace>();
  readonly #options: { now: () => number; redact(text: string): string };
  readonly #wanted: string;

  /** `wanted` is `1` for all servers, or names of some with commas between them; else only those that say so are traced. */
  constructor(
    servers: Readonly<Record<string, { trace: boolean }>>,
    { wanted, ...options }: {
      wanted: string | undefined;
      now: () => number;
      redact(text: string): string;
    },
  ) {
    this.#options = options;
    this.#wanted = wanted ?? "";
    this.use(servers);
  }

  /** Other servers are configured now; what was noted of those that are still traced stays. */
  use(servers: Readonly<Record<string, { trace: boolean }>>): void {
    const named = new Set(this.#wanted.split(",").map((name) => name.trim()));
    const before = new Map(this.#traces);
    this.#traces.clear();
    for (const [name, { trace }] of Object.entries(servers)) {
      if (!trace && this.#wanted !== "1" && !named.has(name)) continue;
      this.#traces.set(name, before.get(name) ?? new ServerTrace(this.#options));
    }
  }

  /** Undefined for a server that is not traced. */
  of(name: string): ServerTrace | undefined {
    return this.#traces.get(name);
  }
}
