import { Jimp } from "jimp";

/** Makes a picture, changes it, and reads it again. */
export async function picture(): Promise<{ width: number; height: number; color: number; type: string | undefined }> {
  const image = new Jimp({ width: 8, height: 4, color: 0xff0000ff });
  image.resize({ w: 4 }).rotate(90);
  const bytes = await image.getBuffer("image/png");
  const { bitmap, mime, ...read } = await Jimp.read(bytes);
  void read;
  return { width: bitmap.width, height: bitmap.height, color: bitmap.data.readUInt32BE(0), type: mime };
}
