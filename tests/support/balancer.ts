import { connect, createServer, type Socket } from "node:net";

/** A load balancer for TCP on a loopback port: each new connection goes to the next backend that says that it is ready. */
export interface Balancer {
  readonly url: string;
  /** Takes a backend in; it gets connections once its `/readyz` is green. */
  add(url: string): void;
  /** Resolves when the backend gets connections. */
  ready(url: string): Promise<void>;
  remove(url: string): void;
  /** Connections that no backend took. */
  readonly refused: number;
  stop(): Promise<void>;
}

interface Backend {
  url: string;
  host: string;
  port: number;
  isReady: boolean;
  becameReady: PromiseWithResolvers<void>;
}

const LOOK_MS = 50;

/** Starts a balancer without backends. */
export async function startBalancer(): Promise<Balancer> {
  const backends: Backend[] = [];
  const sockets = new Set<Socket>();
  const client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  let turn = 0;
  let refused = 0;
  let stopped = false;
  const look = async (backend: Backend) => {
    try {
      const answer = await fetch(`${backend.url}/readyz`, { client });
      await answer.body?.cancel();
      backend.isReady = answer.ok;
    } catch {
      backend.isReady = false;
    }
    if (backend.isReady) backend.becameReady.resolve();
  };
  const looking = (async () => {
    while (!stopped) {
      await Promise.all(backends.map(look));
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  })();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  };
  /** Connects to a ready backend, to another one when it refuses. */
  const join = (near: Socket, tried: ReadonlySet<Backend>) => {
    const ready = backends.filter((one) => one.isReady && !tried.has(one));
    const backend = ready[turn++ % ready.length];
    if (backend === undefined) {
      refused++;
      near.destroy();
      return;
    }
    const far = connect({ host: backend.host, port: backend.port, noDelay: true });
    keep(far);
    const onRefused = () => join(near, new Set([...tried, backend]));
    far.once("error", onRefused);
    far.once("connect", () => {
      far.off("error", onRefused);
      near.on("close", () => far.destroy());
      far.on("close", () => near.destroy());
      near.pipe(far);
      far.pipe(near);
    });
  };
  const server = createServer({ noDelay: true, pauseOnConnect: true }, (near) => {
    keep(near);
    join(near, new Set());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    add(url) {
      const { hostname: host, port } = new URL(url);
      const becameReady = Promise.withResolvers<void>();
      backends.push({ url, host, port: Number(port), isReady: false, becameReady });
    },
    async ready(url) {
      await backends.find((one) => one.url === url)?.becameReady.promise;
    },
    remove(url) {
      backends.splice(backends.findIndex((one) => one.url === url), 1);
    },
    get refused() {
      return refused;
    },
    async stop() {
      stopped = true;
      await looking;
      client.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
