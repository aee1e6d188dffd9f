import OpenAI from "openai";

/** Asks for a completion. */
export async function completion(at: string): Promise<string | null | undefined> {
  const client = new OpenAI({ apiKey: "none", baseURL: `http://${at}/v1` });
  const { choices } = await client.chat.completions.create({
    model: "any",
    messages: [{ role: "user", content: "Ahoy" }],
  });
  return choices[0]?.message.content;
}
