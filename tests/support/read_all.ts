/** Everything the client got, and whether the connection broke before the end. */
export async function readAll(answer: Response): Promise<{ text: string; broken: boolean }> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of answer.body ?? []) text += decoder.decode(chunk, { stream: true });
    return { text, broken: false };
  } catch {
    return { text, broken: true };
  }
}
