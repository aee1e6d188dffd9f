import axios from "axios";

/** Posts JSON, follows a redirect, unzips an answer, and tells an error of the server. */
export async function request(at: string): Promise<{ echo: unknown; moved: unknown; text: string; status?: number }> {
  const client = axios.create({ baseURL: `http://${at}`, headers: { "X-Custom": "yes" } });
  const { data: echo } = await client.post<unknown>("/echo", { a: 1 }, { params: { q: "a b", page: 2 } });
  const { data: moved } = await client.get<{ query: unknown }>("/redirect");
  const { data: text } = await client.get<string>("/gzip");
  const error: unknown = await client.get("/none").catch((error: unknown) => error);
  return { echo, moved: moved.query, text, ...(axios.isAxiosError(error) && { status: error.response?.status }) };
}
