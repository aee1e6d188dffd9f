import fetch, { FormData, Headers, Request, Response } from "node-fetch";

/** A data: URL, which needs no network, and the classes. */
export async function fetched(): Promise<{ text: string; type: string | null; method: string; json: unknown }> {
  const response = await fetch("data:text/plain;charset=UTF-8,Hello%20World");
  const request = new Request("https://example.com/", { method: "POST", body: "{}", headers: new Headers({ a: "b" }) });
  const form = new FormData();
  form.set("name", "value");
  const json = await new Response('{"ok":true}').json();
  return { text: await response.text(), type: response.headers.get("content-type"), method: request.method, json };
}
