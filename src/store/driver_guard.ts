import type { Log } from "../core/log.ts";

/**
 * True for the one error that the Postgres driver throws where nobody can catch it: a backend that dies inside a
 * transaction, with another statement to follow, makes it write to a connection that is gone
 * (porsager/postgres #1154, #1208). The pool opens a new connection by itself.
 */
export function isDriverCrash(error: unknown): boolean {
  return error instanceof TypeError && /\/postgres\/[^\n]*\/connection\.js/.test(error.stack ?? "");
}

/** Keeps the process alive through exactly that error; every other one ends it as before. Gives the function that takes the guard away. */
export function guardAgainstDriverCrash(log: Log): () => void {
  const onError = (event: ErrorEvent) => {
    if (!isDriverCrash(event.error)) return;
    event.preventDefault();
    log.warn("The Postgres driver lost a connection in a transaction; the pool replaces it", {
      error: event.error,
    });
  };
  const onRejection = (event: PromiseRejectionEvent) => {
    if (!isDriverCrash(event.reason)) return;
    event.preventDefault();
    log.warn("The Postgres driver lost a connection; the pool replaces it", {
      error: event.reason,
    });
  };
  globalThis.addEventListener("error", onError);
  globalThis.addEventListener("unhandledrejection", onRejection);
  return () => {
    globalThis.removeEventListener("error", onError);
    globalThis.removeEventListener("unhandledrejection", onRejection);
  };
}
