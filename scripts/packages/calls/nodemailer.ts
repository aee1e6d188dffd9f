import nodemailer from "nodemailer";

/** Sends a message. */
export async function message(at: string): Promise<{ response: string; accepted: unknown; wrong: string }> {
  const [host, port] = at.split(":") as [string, string];
  const where = { host, port: Number(port), secure: false, ignoreTLS: true };
  const letter = { from: "ada@example.com", to: "bob@example.com", subject: "Grüße", text: "Hello" };
  const transport = nodemailer.createTransport({ ...where, auth: { user: "user", pass: "right" } });
  const { response, accepted } = await transport.sendMail(letter);
  const other = nodemailer.createTransport({ ...where, auth: { user: "user", pass: "wrong" } });
  const error: unknown = await other.sendMail(letter).catch((error: unknown) => error);
  return { response, accepted, wrong: error instanceof Error ? error.message : "" };
}
