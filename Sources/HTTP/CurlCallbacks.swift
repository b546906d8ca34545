import CCurl
import Glibc

/// The functions libcurl calls, all on the engine's thread, with a `Transfer` as context.
///
/// Constants of an enum and not literals at their place of use, because a literal inherits the isolation around it.
enum CurlCallbacks {
    /// CURLOPT_HEADERFUNCTION
    static let header: @convention(c) (UnsafeMutablePointer<CChar>?, Int, Int, UnsafeMutableRawPointer?) -> Int = {
        buffer, size, count, context in
        let line = UnsafeRawBufferPointer(start: buffer, count: size * count)
        return transfer(context)?.receiveHeader(line) == true ? line.count : refusal
    }

    /// CURLOPT_WRITEFUNCTION
    static let write: @convention(c) (UnsafeMutablePointer<CChar>?, Int, Int, UnsafeMutableRawPointer?) -> Int = {
        buffer, size, count, context in
        let bytes = UnsafeRawBufferPointer(start: buffer, count: size * count)
        return switch transfer(context)?.receiveBody(bytes) {
        case .done: bytes.count
        case .later: Int(CURL_WRITEFUNC_PAUSE)
        case .failed, nil: refusal
        }
    }

    /// CURLOPT_READFUNCTION
    static let read: @convention(c) (UnsafeMutablePointer<CChar>?, Int, Int, UnsafeMutableRawPointer?) -> Int = {
        buffer, size, count, context in
        let room = UnsafeMutableRawBufferPointer(start: buffer, count: size * count)
        return switch transfer(context)?.readBody(into: room) {
        case .done(let count): count
        case .later: Int(CURL_READFUNC_PAUSE)
        case .failed, nil: Int(CURL_READFUNC_ABORT)
        }
    }

    /// CURLOPT_SEEKFUNCTION: libcurl wants to send a body again because a kept connection broke. It would do so without a report,
    /// though the server may have acted; refusing makes the transfer end as interrupted.
    static let seek: @convention(c) (UnsafeMutableRawPointer?, curl_off_t, CInt) -> CInt = { _, _, _ in
        CURL_SEEKFUNC_FAIL
    }

    /// CURLOPT_PREREQFUNCTION: the request is about to be sent, for the first time or again.
    static let begin:
        @convention(c) (
            UnsafeMutableRawPointer?, UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<CChar>?, CInt, CInt
        ) -> CInt = { context, _, _, _, localPort in
            transfer(context)?.begin(localPort: localPort) == true ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
        }

    /// CURLOPT_SOCKOPTFUNCTION: a connection is made. Without a limit the kernel retransmits unacknowledged bytes for a quarter
    /// of an hour. tcp(7): TCP_USER_TIMEOUT
    static let socket: @convention(c) (UnsafeMutableRawPointer?, curl_socket_t, curlsocktype) -> CInt = {
        context, socket, _ in
        transfer(context)?.sockets.add(socket)
        if var limit = transfer(context).map({ CUnsignedInt(clamping: $0.acknowledgement.milliseconds) }) {
            let size = socklen_t(MemoryLayout<CUnsignedInt>.size)
            setsockopt(socket, CInt(IPPROTO_TCP), TCP_USER_TIMEOUT, &limit, size)
        }
        return CInt(CURL_SOCKOPT_OK)
    }

    /// The return value that ends a transfer: never the count that libcurl expects (CURL_WRITEFUNC_ERROR).
    private static let refusal = 0xFFFF_FFFF

    private static func transfer(_ context: UnsafeMutableRawPointer?) -> Transfer? {
        context.map { Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
    }
}
