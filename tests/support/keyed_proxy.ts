import { createServer, request as httpRequest } from "node:http";

/** A proxy on loopback. */
export interface KeyedProxy {
  url: string;
  stop(): Promise<void>;
}

/** Sends everything on as it came, Host and Origin included, with a key that the client does not know to send. */
export async function startKeyedProxy(to: string, key: string): Promise<KeyedProxy> {
  const { hostname, port } = new URL(to);
  const server = createServer((request, response) => {
    const { method, url, headers } = request;
    const sent = httpRequest({
      hostname,
      port,
      method,
      path: url,
      headers: { ...headers, authorization: `Bearer ${key}` },
    }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    sent.on("error", () => response.destroy());
    response.on("close", () => sent.destroy());
    request.pipe(sent);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
