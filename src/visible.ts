// Text of others on its way to a terminal: what would move the cursor, change colours, or turn the direction of writing is shown as
// its number instead, so that no record can forge what people read.

const unseen = /[^\P{Cc}\n\t]|\p{Cf}|[\p{Zl}\p{Zp}]/gu

export const visible = (text: string): string =>
  text.replaceAll(unseen, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
