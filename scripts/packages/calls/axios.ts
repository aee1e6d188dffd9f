import axios, { AxiosError } from "axios";

const client = axios.create({ baseURL: "https://api.example.com", headers: { "X-Custom": "yes" } });

/** Carries out a request with an adapter of its own, without a network, and builds an address. */
export async function request(): Promise<{ data: unknown; url: string; code: string | undefined }> {
  const { data } = await client.get("/items", {
    adapter: async (config) => ({
      data: JSON.stringify({ path: config.url, custom: config.headers.get("X-Custom") }),
      status: 200,
      statusText: "OK",
      headers: {},
      config,
    }),
  });
  const url = client.getUri({ url: "/items", params: { q: "a b", page: 2 } });
  const error = await client
    .get("/none", { adapter: async (config) => Promise.reject(new AxiosError("no", "ERR_NETWORK", config)) })
    .catch((error: unknown) => error);
  return { data, url, code: axios.isAxiosError(error) ? error.code : undefined };
}
