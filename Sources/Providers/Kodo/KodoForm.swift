import Basics

/// A form with one file in it, as `multipart/form-data` (RFC 7578): the body of an upload in one request (Kodo API, form
/// upload).
struct KodoForm: ByteSource {
    private let head: [UInt8]
    private let file: any ByteSource
    private let tail: [UInt8]
    let count: Int64

    /// `type` is the file's; without one the store detects it. The boundary is too long to be in the file by chance.
    init(fields: [(name: String, value: [UInt8])], file: any ByteSource, type: String?, boundary: String) {
        var head: [UInt8] = []
        for field in fields {
            head += Array("--\(boundary)\r\nContent-Disposition: form-data; name=\"\(field.name)\"\r\n\r\n".utf8)
            head += field.value + Array("\r\n".utf8)
        }
        head += Array("--\(boundary)\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n".utf8)
        if let type { head += Array("Content-Type: \(type)\r\n".utf8) }
        head += Array("\r\n".utf8)
        (self.head, self.file) = (head, file)
        tail = Array("\r\n--\(boundary)--\r\n".utf8)
        count = Int64(head.count) + file.count + Int64(tail.count)
    }

    static func contentType(boundary: String) -> String { "multipart/form-data; boundary=\(boundary)" }

    func read(at offset: Int64, into output: inout OutputRawSpan) throws(ByteTransferError) {
        let (start, end) = (Int64(head.count), Int64(head.count) + file.count)
        if offset < start {
            MemorySource(head).read(at: offset, into: &output)
        } else if offset < end {
            try file.read(at: offset - start, into: &output)
        } else {
            MemorySource(tail).read(at: offset - end, into: &output)
        }
    }
}
