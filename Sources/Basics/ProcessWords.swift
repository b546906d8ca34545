import Glibc

/// Calls `body` with an array of C strings that ends with a null pointer, as execve(2) takes arguments and variables. It is valid
/// during the call.
package func withCStrings<Value>(
    _ texts: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Value
) -> Value {
    var pointers: [UnsafeMutablePointer<CChar>?] = texts.map { (text: String) in strdup(text) }
    pointers.append(nil)
    defer { for pointer in pointers { free(pointer) } }
    return pointers.withUnsafeMutableBufferPointer { buffer in
        guard let start = buffer.baseAddress else { preconditionFailure("an array with a member has an address") }
        return body(start)
    }
}

/// What a shell shows of a wait status (waitpid(2)): the exit status, or 128 and the signal.
package func exitCode(of status: Int32) -> Int32 {
    let signal = status & 0x7f
    return signal == 0 ? (status >> 8) & 0xff : 128 + signal
}
