import nodemailer from "nodemailer";

/** Writes a message, and sends it nowhere. */
export async function message(): Promise<{ lines: string[]; to: unknown }> {
  const transport = nodemailer.createTransport({ streamTransport: true, newline: "unix", buffer: true });
  const sent = await transport.sendMail({
    from: "sender@example.com",
    to: "receiver@example.com",
    subject: "Grüße",
    text: "Hello",
  });
  const lines = String(sent.message).split("\n");
  return { lines: lines.filter((line) => /^(From|To|Subject):/.test(line)), to: sent.envelope.to };
}
