import { connect, createServer, type Socket } from "node:net";

/** A door to a Postgres that is as poor as a distributed database behind a pooler. */
export interface PickyPostgres {
  /** The address of the door. */
  url: string;
  /** What the hub sent that had to be refused, oldest first. */
  readonly refused: readonly string[];
  stop(): Promise<void>;
}

/** What is refused, by the text of the statement. */
const REFUSED: readonly (readonly [RegExp, string])[] = [
  [/\bskip\s+locked\b/i, "SKIP LOCKED"],
  [/^\s*(?:un)?listen\b/i, "LISTEN"],
  [/\bpg_notify\b|^\s*notify\b/i, "NOTIFY"],
  [/advisory/i, "an advisory lock"],
  [/^\s*(?:set\s+(?!local\b)|reset\b|discard\b)/i, "a setting of the session"],
  [/^\s*prepare\b/i, "a prepared statement"],
];

/** What poolers let through of a connection's parameters. */
const PARAMETERS = ["user", "database", "application_name", "client_encoding"];

/**
 * Starts a door to `url` that spoils the statements which a distributed database or a pooler by transaction does not
 * take, so that the server answers them with an error. Only connections that call themselves `loophub…` are looked at:
 * a test's own may do what they like.
 */
export async function startPickyPostgres(url: string): Promise<PickyPostgres> {
  const { hostname: host, port: farPort } = new URL(url);
  const refused: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect({ host, port: Number(farPort) });
    const sieve = createSieve((what) => refused.push(what));
    for (const [from, to] of [[near, far], [far, near]] as const) {
      sockets.add(from);
      from.on("error", () => {});
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    near.on("data", (bytes) => void far.write(sieve(bytes)));
    far.on("data", (bytes) => void near.write(bytes));
  });
  const { promise: listens, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await listens;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const door = new URL(url);
  door.hostname = "127.0.0.1";
  door.port = String(address.port);
  return {
    url: door.href,
    refused,
    async stop() {
      const closed = new Promise<void>((done) => server.close(() => done()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

const STARTUP = 196_608;

/** The client's bytes as they are to go on: whole messages, those that are refused with their text spoiled. */
function createSieve(refuse: (what: string) => void): (bytes: Uint8Array) => Uint8Array {
  let rest = Buffer.alloc(0);
  let isHub: boolean | null = null;
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    const out: Buffer[] = [];
    for (;;) {
      const typed = isHub !== null;
      const at = typed ? 1 : 0;
      if (rest.length < at + 4) break;
      const end = at + rest.readInt32BE(at);
      if (rest.length < end) break;
      const message = rest.subarray(0, end);
      rest = rest.subarray(end);
      if (typed) {
        out.push(isHub === true ? checkMessage(message, refuse) : message);
        continue;
      }
      if (message.readInt32BE(4) === STARTUP) isHub = checkStartup(message, refuse);
      out.push(message);
    }
    return Buffer.concat(out);
  };
}

function checkStartup(message: Buffer, refuse: (what: string) => void): boolean {
  const words = message.toString("utf8", 8).split("\0");
  const parameters = new Map<string, string>();
  for (let at = 0; words[at]; at += 2) parameters.set(words[at] ?? "", words[at + 1] ?? "");
  if (parameters.get("application_name")?.startsWith("loophub") !== true) return false;
  for (const name of parameters.keys()) {
    if (!PARAMETERS.includes(name)) refuse(`start-up parameter ${name}`);
  }
  return true;
}

function checkMessage(message: Buffer, refuse: (what: string) => void): Buffer {
  const kind = String.fromCharCode(message[0] ?? 0);
  if (kind !== "P" && kind !== "Q") return message;
  const words = message.toString("utf8", 5).split("\0");
  const [name, text] = kind === "P" ? words : ["", words[0]];
  const why = name !== ""
    ? "a prepared statement"
    : REFUSED.find(([pattern]) => pattern.test(text ?? ""))?.[1];
  if (why === undefined) return message;
  refuse(`${why}: ${text}`);
  const body = Buffer.from(kind === "P" ? `\0"refused: ${why}"\0\0\0` : `"refused: ${why}"\0`);
  const head = Buffer.from([message[0] ?? 0, 0, 0, 0, 0]);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
