import Emulator
import Glibc
import Synchronization

/// Carries a result from a task to the thread that waits for it; locked by its own mutex.
final class Answer<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, EmulatorError>?>(nil)

    var value: Result<Value, EmulatorError>? { result.withLock { $0 } }
    func set(_ result: Result<Value, EmulatorError>) { self.result.withLock { $0 = result } }
}

/// Writes a line at once: nothing of it waits in a buffer when a reader looks for it.
func print(_ line: String, toDescriptor descriptor: CInt) {
    let bytes = Array("\(line)\n".utf8)
    _ = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
}
