package import Basics
import Glibc

/// One line of the request log.
package struct RequestLogEntry: Sendable {
    package var time: Timestamp
    package var operation: String
    package var bucket: String
    package var key: ByteString
    /// 0 when the connection was reset instead of answered.
    package var status: Int
    package var bytesIn: Int64
    package var bytesOut: Int64
    package var milliseconds: Double
    package var range: String?
    /// What the client calls itself.
    package var agent: String?
    /// The kinds of the faults that fired.
    package var faults: [String] = []

    /// The line as JSON, with its newline.
    package var line: String {
        var text = #"{"time":"\#(time.iso8601(fraction: 6))","operation":\#(JSONText.quote(operation))"#
        text += #","bucket":\#(JSONText.quote(bucket)),"key":\#(JSONText.quote(key.description)),"status":\#(status)"#
        text += #","bytes_in":\#(bytesIn),"bytes_out":\#(bytesOut)"#
        text += #","ms":\#((milliseconds * 1000).rounded() / 1000)"#
        if let range { text += #","range":\#(JSONText.quote(range))"# }
        if let agent { text += #","agent":\#(JSONText.quote(agent))"# }
        if !faults.isEmpty { text += #","faults":[\#(faults.map(JSONText.quote).joined(separator: ","))]"# }
        return text + "}\n"
    }
}

/// Strings in JSON documents (RFC 8259 section 7).
package enum JSONText {
    package static func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case _ where scalar.value < 0x20 || scalar.value == 0x7f:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

/// Appends a line for each request to a file, at once: each line is one write(2) in append mode, so lines of several
/// threads never mix and no lock is needed.
final class RequestLog: Sendable {
    private let descriptor: CInt

    init(path: String) throws(StorageError) {
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw .system(FileError(errno: errno, operation: "open", path: path)) }
    }

    deinit { close(descriptor) }

    /// A line that does not fit the disk is lost: the log is not worth failing a request.
    func write(_ entry: RequestLogEntry) {
        let line = Array(entry.line.utf8)
        _ = unsafe line.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }
}
