// Numbers as people read them.

export const count = (number: number): string => number.toLocaleString('en')
export const plural = (number: number, noun: string): string =>
  `${count(number)} ${noun}${number === 1 ? '' : 's'}`
