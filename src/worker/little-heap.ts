// What a program that runs for months asks of V8: to look for garbage before there is much of it. Otherwise the heap grows to several times
// what is needed, and stays so large. It costs a little work, which short programs need not do.

import { flushCompileCache } from 'node:module'
import { setFlagsFromString } from 'node:v8'

export function keepHeapLittle(): void {
  // Compiled code is kept together with the flags, and other programs, without these, could not use it.
  flushCompileCache()
  setFlagsFromString('--heap-growing-percent=40')
}
