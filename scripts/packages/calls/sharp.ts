import sharp from "sharp";

/** Makes a picture. */
export async function picture(): Promise<string> {
  const image = sharp({ create: { width: 2, height: 2, channels: 3, background: "red" } });
  return (await image.png().toBuffer()).toString("base64");
}
