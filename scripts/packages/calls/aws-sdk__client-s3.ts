import { GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";

/** Puts an object, and gets it. */
export async function object(at: string): Promise<{ text: string | undefined; missing: string }> {
  const client = new S3Client({
    endpoint: `http://${at}`,
    forcePathStyle: true,
    region: "us-east-1",
    credentials: { accessKeyId: "none", secretAccessKey: "none" },
  });
  const where = { Bucket: "bucket", Key: "a/b.txt" };
  await client.send(new PutObjectCommand({ ...where, Body: "content" }));
  const { Body } = await client.send(new GetObjectCommand(where));
  const error: unknown = await client
    .send(new GetObjectCommand({ Bucket: "bucket", Key: "none" }))
    .catch((error) => error);
  client.destroy();
  return { text: await Body?.transformToString(), missing: (error as Error).name };
}
