import assert from "node:assert/strict";
import { createHttpClient } from "../../../src/providers/http1/client.ts";
import { createConnect } from "../../../src/providers/http1/dial.ts";
import { createGuardedConnect } from "../../../src/providers/http1/guarded_connect.ts";
import { hasProgram } from "../../support/programs.ts";
import { settle } from "../../support/fake_clock.ts";
import { errorOf, post, realClock, textOf } from "./with_client.ts";

/** A certificate for these names that nobody else trusts, made anew with openssl. */
async function makeCertificate(names: string): Promise<{ cert: string; key: string }> {
  const folder = await Deno.makeTempDir();
  try {
    const args = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 " +
      "-keyout key.pem -out cert.pem -subj /CN=localhost " +
      `-addext subjectAltName=${names} -addext basicConstraints=critical,CA:FALSE`;
    const made = await new Deno.Command("openssl", { args: args.split(" "), cwd: folder }).output();
    assert.ok(made.success, new TextDecoder().decode(made.stderr));
    return {
      cert: await Deno.readTextFile(`${folder}/cert.pem`),
      key: await Deno.readTextFile(`${folder}/key.pem`),
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Answers each request on each connection with `answer`; closes after one that says so. */
async function serveTls(listener: Deno.TlsListener, answer: string): Promise<void> {
  const conversations: Promise<void>[] = [];
  for await (const socket of listener) conversations.push(converse(socket, answer));
  await Promise.all(conversations);
}

async function converse(socket: Deno.TlsConn, answer: string): Promise<void> {
  const buffer = new Uint8Array(65536);
  try {
    while (await socket.read(buffer) !== null) {
      const bytes = new TextEncoder().encode(answer);
      for (let at = 0; at < bytes.length;) at += await socket.write(bytes.subarray(at));
      if (answer.includes("connection: close")) break;
    }
  } catch {
    // A client that does not trust the certificate says so and leaves.
  } finally {
    socket.close();
  }
}

const HAS_OPENSSL = hasProgram("openssl");
const NO_CERTIFICATE = { cert: "", key: "" };
const certificate = HAS_OPENSSL
  ? await makeCertificate("DNS:localhost,IP:127.0.0.1")
  : NO_CERTIFICATE;
const otherCertificate = HAS_OPENSSL ? await makeCertificate("DNS:other.test") : NO_CERTIFICATE;
/** A test that needs certificates. */
const test = (name: string, fn: () => Promise<void>) =>
  Deno.test({ name, ignore: !HAS_OPENSSL, fn });

async function withTls(
  answer: string,
  use: (port: number) => Promise<void>,
  identity = certificate,
): Promise<void> {
  const listener = Deno.listenTls({ hostname: "127.0.0.1", port: 0, ...identity });
  const serving = serveTls(listener, answer);
  try {
    await use(listener.addr.port);
  } finally {
    listener.close();
    await serving;
  }
}

const ANSWER = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

test("TLS works by name and by address, and its connections are kept", () =>
  withTls(ANSWER, async (port) => {
    const client = createHttpClient({ clock: realClock, caCerts: [certificate.cert] });
    for (const host of ["localhost", "127.0.0.1"]) {
      for (let i = 0; i < 3; i++) {
        assert.equal(await textOf(await client.send(post(`https://${host}:${port}/v1`))), "hello");
      }
    }
    assert.deepEqual(client.stats(), { open: 2, idle: 2, connects: 2, reused: 4, replays: 0 });
    client.close();
  }));

test("an unknown certificate is refused before anything is sent", () =>
  withTls(ANSWER, async (port) => {
    const client = createHttpClient({ clock: realClock });
    const error = await errorOf(client.send(post(`https://localhost:${port}/v1?key=secret`)));
    assert.equal(error.code, "upstream_unreachable");
    assert.match(error.message, /^Connecting to the upstream failed: .*certificate/i);
    assert.equal(client.stats().open, 0);
    client.close();
  }));

test("a trusted certificate for another name is refused", () =>
  withTls(ANSWER, async (port) => {
    const client = createHttpClient({ clock: realClock, caCerts: [otherCertificate.cert] });
    for (const host of ["localhost", "127.0.0.1"]) {
      const error = await errorOf(client.send(post(`https://${host}:${port}/`)));
      assert.equal(error.code, "upstream_unreachable");
    }
    assert.equal(client.stats().open, 0);
    client.close();
  }, otherCertificate));

test("a name whose address was found before is still what the certificate must be for", () =>
  withTls(ANSWER, async (port) => {
    const connect = createGuardedConnect({
      connect: createConnect({ caCerts: [otherCertificate.cert] }),
      resolve: () => Promise.resolve(["127.0.0.1"]),
      privateNames: true,
    });
    const client = createHttpClient({ clock: realClock, connect });
    assert.equal(await textOf(await client.send(post(`https://other.test:${port}/`))), "hello");
    const error = await errorOf(client.send(post(`https://another.test:${port}/`)));
    assert.equal(error.code, "upstream_unreachable");
    client.close();
  }, otherCertificate));

test("a body larger than all buffers comes whole over TLS, also to a slow reader", () => {
  const text = "0123456789".repeat(100_000);
  const answer = `HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
  return withTls(answer, async (port) => {
    const client = createHttpClient({ clock: realClock, caCerts: [certificate.cert] });
    const response = await client.send(post(`https://localhost:${port}/`));
    for (let turn = 0; turn < 20; turn++) await settle();
    assert.equal(await textOf(response) === text, true);
    assert.equal(client.stats().idle, 1);
    client.close();
  });
});

test("a reader that does not read holds the server back over TLS", async () => {
  const listener = Deno.listenTls({ hostname: "127.0.0.1", port: 0, ...certificate });
  const client = createHttpClient({ clock: realClock, caCerts: [certificate.cert] });
  const asked = client.send(post(`https://127.0.0.1:${listener.addr.port}/`));
  const socket = await listener.accept();
  await socket.read(new Uint8Array(1000));
  let written = 0;
  const serving = (async () => {
    const piece = new Uint8Array(65536);
    const head = new TextEncoder().encode("HTTP/1.1 200 OK\r\n\r\n");
    await socket.write(head);
    while (written < 256 * 1024 * 1024) written += await socket.write(piece);
  })().catch(() => {});
  const response = await asked;
  // Held back means that nothing more is taken, however often the event loop turns.
  for (let before = -1; before !== written;) {
    before = written;
    for (let turn = 0; turn < 200; turn++) await settle();
  }
  assert.ok(written < 64 * 1024 * 1024, `${written} bytes were taken`);
  response.cancel();
  await serving;
  socket.close();
  listener.close();
  client.close();
});

test("a cut over TLS is an error", () =>
  withTls(
    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 50\r\n\r\nhello",
    async (port) => {
      const client = createHttpClient({ clock: realClock, caCerts: [certificate.cert] });
      const response = await client.send(post(`https://localhost:${port}/`));
      assert.equal((await errorOf(textOf(response))).code, "upstream_cut");
      assert.equal(client.stats().open, 0);
      client.close();
    },
  ));

test("a stop while a body is written over TLS frees the connection", async () => {
  const listener = Deno.listenTls({ hostname: "127.0.0.1", port: 0, ...certificate });
  const client = createHttpClient({ clock: realClock, caCerts: [certificate.cert] });
  const abort = new AbortController();
  const sent = errorOf(client.send(post(`https://127.0.0.1:${listener.addr.port}/`, {
    body: new Uint8Array(16 * 1024 * 1024),
    signal: abort.signal,
  })));
  const socket = await listener.accept();
  await socket.read(new Uint8Array(100));
  abort.abort();
  assert.equal((await sent).code, "aborted");
  assert.equal(client.stats().open, 0);
  const left = new Uint8Array(65536);
  let total = 0;
  try {
    for (let count = await socket.read(left); count !== null; count = await socket.read(left)) {
      total += count;
    }
  } catch {
    // Closing in mid-record is an error to the reader, and as good as an end here.
  }
  assert.ok(total < 16 * 1024 * 1024);
  socket.close();
  listener.close();
  client.close();
});
