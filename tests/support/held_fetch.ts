/**
 * A `fetch` that holds its answers: the runtime lets a signal end a body only as long as nobody has collected the response
 * that came with it, and a client that reads a stream may drop that.
 */
export function createHeldFetch(): (url: string | URL, init?: RequestInit) => Promise<Response> {
  const answers: Response[] = [];
  return async (url, init) => {
    const answer = await fetch(url, init);
    if (init?.signal) answers.push(answer);
    return answer;
  };
}
