// Which blocks of a result are shown as pictures.

import assert from "node:assert/strict";
import { test } from "node:test";

import { attachedAddresses, pictureAddresses } from "../../../gateway/web/page/chat/pictures.js";

const image = (mimeType, data = "QUJD") => ({ type: "image", mimeType, data });

test("pictures of a result are shown, and nothing that can contain a program", () => {
  const blocks = [
    { type: "text", text: "data:image/png;base64,QUJD" },
    image("image/png"),
    image("image/svg+xml"),
    image("text/html"),
    image("image/png", '"><script>'),
    image("image/jpeg", null),
    { type: "resource", resource: { uri: "u", mimeType: "image/webp", blob: "QQ==" } },
    { type: "resource", resource: { uri: "u", text: "t" } },
    null,
  ];
  assert.deepEqual(pictureAddresses(blocks), ["data:image/png;base64,QUJD", "data:image/webp;base64,QQ=="]);
  assert.deepEqual(pictureAddresses(undefined), []);
  assert.equal(pictureAddresses(Array(20).fill(image("image/gif"))).length, 8);
});

test("pictures of a user are shown, and nothing that can contain a program", () => {
  const pictures = [{ media_type: "image/png", data: "QUJD" }, { media_type: "image/svg+xml", data: "QUJD" }, null];
  assert.deepEqual(attachedAddresses(pictures), ["data:image/png;base64,QUJD"]);
  assert.deepEqual(attachedAddresses(undefined), []);
});
