// The pictures in the result of a tool, or in a message of a user, as `data:` addresses. Pure.

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST = 8;
const MOST_OF_USER = 20;

/** The addresses of the pictures among the content blocks of a result, at most `most`. Other formats are left
 * out: SVG, for instance, can contain a program. */
export function pictureAddresses(blocks, most = MOST) {
  return (blocks ?? [])
    .map((block) =>
      block?.type === "resource"
        ? { mimeType: block.resource?.mimeType, data: block.resource?.blob }
        : { mimeType: block?.type === "image" ? block.mimeType : null, data: block?.data },
    )
    .filter(({ mimeType, data }) => TYPES.includes(mimeType) && /^[A-Za-z0-9+/]+={0,2}$/.test(data ?? ""))
    .slice(0, most)
    .map(({ mimeType, data }) => `data:${mimeType};base64,${data}`);
}

/** The addresses of the pictures in the event of a message. */
export function attachedAddresses(pictures) {
  return pictureAddresses(
    (pictures ?? []).map((each) => ({ type: "image", mimeType: each?.media_type, data: each?.data })),
    MOST_OF_USER,
  );
}
