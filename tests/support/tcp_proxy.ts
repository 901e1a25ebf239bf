import { connect, createServer, type Socket } from "node:net";

/** What the proxy does with connections: `pass` bytes on, `stall` them unread, `refuse` new ones, `slam` new ones shut. */
export type ProxyMode = "pass" | "stall" | "refuse" | "slam";

/** A TCP proxy on a loopback port that keeps its port through all modes. */
export interface TcpProxy {
  /** The address with the proxy in place of its host. */
  through(url: string): string;
  /** Bytes held by `stall` move on with `pass`. */
  set(mode: ProxyMode): Promise<void>;
  /** Resets all connections. */
  cut(): void;
  /** Ends all connections on the far side only: who connected is never told. */
  forget(): void;
  /** Connections accepted since the start. */
  readonly accepted: number;
  stop(): Promise<void>;
}

/** Starts a proxy to `url`'s host and port. */
export async function startTcpProxy(url: string): Promise<TcpProxy> {
  const target = { host: new URL(url).hostname, port: Number(new URL(url).port) };
  const pairs = new Set<{ near: Socket; far: Socket; forgotten: boolean }>();
  let mode: ProxyMode = "pass";
  let accepted = 0;
  const server = createServer((near) => {
    accepted++;
    near.on("error", () => {});
    if (mode === "slam") {
      near.destroy();
      return;
    }
    const far = connect(target);
    const pair = { near, far, forgotten: false };
    pairs.add(pair);
    far.on("error", () => {});
    near.on("data", (bytes) => void (far.destroyed || far.write(bytes)));
    far.on("data", (bytes) => void near.write(bytes));
    near.on("close", () => {
      far.destroy();
      pairs.delete(pair);
    });
    far.on("close", () => {
      if (!pair.forgotten) near.destroy();
    });
    if (mode === "stall") { for (const socket of [near, far]) socket.pause(); }
  });
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", () => {
        server.off("error", reject);
        resolve();
      });
    });
  await listen(0);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const { port } = address;
  const cut = () => {
    for (const { near, far } of [...pairs]) {
      near.resetAndDestroy();
      far.destroy();
    }
  };
  return {
    through(url) {
      const through = new URL(url);
      through.hostname = "127.0.0.1";
      through.port = String(port);
      return through.href;
    },
    async set(next) {
      const before = mode;
      mode = next;
      for (const { near, far } of pairs) {
        for (const socket of [near, far]) {
          if (next === "stall") socket.pause();
          if (next === "pass") socket.resume();
        }
      }
      if (next === "refuse") server.close();
      else if (before === "refuse") await listen(port);
    },
    cut,
    forget() {
      for (const pair of pairs) {
        pair.forgotten = true;
        pair.far.destroy();
      }
    },
    get accepted() {
      return accepted;
    },
    async stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      cut();
      if (mode !== "refuse") await closed;
    },
  };
}
