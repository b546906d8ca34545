import Basics
import CCurl
import Synchronization

/// A request for the engine, and the flags with which its task withdraws it.
final class Submission: Sendable {
    let request: HTTPRequest
    let source: (any ByteSource)?
    let sink: (any ByteSink)?
    let bodyUse: @Sendable (HTTPResponse) -> BodyUse
    /// Told how far the body has come.
    let sent: SentBytes?
    let isCancelled = Atomic(false)
    /// The server does not answer other requests either.
    let isForsaken = Atomic(false)
    let continuation: Mutex<CheckedContinuation<Result<HTTPResponse, HTTPError>, Never>?> = Mutex(nil)

    init(
        _ request: HTTPRequest, source: (any ByteSource)?, sink: (any ByteSink)?,
        bodyUse: @escaping @Sendable (HTTPResponse) -> BodyUse
    ) {
        (self.request, self.source, self.sink, self.bodyUse) = (request, source, sink, bodyUse)
        sent = source == nil ? nil : SentBytes.current
    }

    /// Resumes the waiting task with the result; only the first result counts.
    func finish(_ result: Result<HTTPResponse, HTTPError>) {
        let waiting = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        waiting?.resume(returning: result)
    }
}

/// One request in flight, on which libcurl's callbacks work. Used on the engine's thread only, from the moment its handle joins
/// the multi handle until it leaves.
final class Transfer {
    let submission: Submission
    let easy: EasyHandle
    private let traffic: HTTPTraffic
    private let pacing: Pacing
    let sockets: ConnectionSockets
    /// That of its connection, where it was asked for.
    private var socket: CInt?
    private var response = HTTPResponse(status: 0)
    private var use: BodyUse?
    private var sourceOffset: Int64 = 0
    private var received: Int64 = 0
    /// Directions that wait for their rate limit.
    private var paused: Set<Pacing.Direction> = []
    /// The transfer has waited for its limit since it was checked last: that time does not count as the server's silence.
    private var hasWaited = false
    /// How often libcurl has begun to send it.
    private var begins = 0
    /// Why a callback stopped the transfer.
    private var failure: HTTPError?
    private var headerList: UnsafeMutablePointer<curl_slist>?
    private var progress = Progress()
    private var lastProgress: Duration
    private let stallTimeout: Duration
    /// When it ends even while bytes move, on the engine's clock.
    private var deadline: Duration?
    /// Its task does not wait for the answer any more.
    private(set) var isWithdrawn = false
    /// How long the engine waits for the answer all the same.
    static let patience = Duration.seconds(2)
    private let limit: Duration?
    /// Most time until the server's kernel acknowledges sent bytes.
    let acknowledgement: Duration
    private let began: Duration

    private struct Progress: Equatable {
        var sent: Int64 = 0
        var received: Int64 = 0
        var headerBytes = 0
    }

    /// With `connectionAge`, older connections are not reused.
    init(
        _ submission: Submission, on easy: EasyHandle, options: HTTPOptions, traffic: HTTPTraffic, pacing: Pacing,
        sockets: ConnectionSockets, now: Duration, connectionAge: Duration?
    ) {
        (self.submission, self.easy, self.traffic, self.pacing) = (submission, easy, traffic, pacing)
        self.sockets = sockets
        lastProgress = now
        (began, acknowledgement) = (now, options.acknowledgement)
        stallTimeout = submission.request.stallTimeout ?? options.stallTimeout
        limit = options.transferTimeout
        deadline = limit.map { now + $0 }
        configure(options)
        // The least value of the option is a second.
        if let connectionAge { easy.set(CURLOPT_MAXLIFETIME_CONN, max(1, connectionAge.milliseconds / 1000)) }
    }

    deinit { curl_slist_free_all(headerList) }

    // MARK: Progress

    /// Checks whether bytes moved since the last check; returns the time until the next check, zero when the transfer's time is
    /// up.
    func timeLeft(now: Duration) -> Duration {
        let seen = Progress(
            sent: easy.offset(CURLINFO_SIZE_UPLOAD_T), received: easy.offset(CURLINFO_SIZE_DOWNLOAD_T),
            headerBytes: easy.long(CURLINFO_HEADER_SIZE))
        if seen != progress || hasWaited { (progress, lastProgress) = (seen, now) }
        tellSent()
        hasWaited = !paused.isEmpty
        let left = max(.zero, lastProgress + stallTimeout - now)
        let next = left > .zero ? max(.milliseconds(5), min(left, interval)) : .zero
        return deadline.map { min(next, max(.zero, $0 - now)) } ?? next
    }

    /// The time until its first check.
    var firstLook: Duration { min(interval, limit ?? .seconds(3600)) }

    /// The time between two checks. Silence is counted from the check that sees the last progress, so a transfer ends too late by
    /// so much at most.
    private var interval: Duration { stallTimeout / 16 }

    /// Whether its end shows that the connection, which was kept from an earlier request, is dead; others of its age may be, too.
    func hasLostItsPath(now: Duration) -> Bool {
        let wasKept = begins > 1 || easy.long(CURLINFO_NUM_CONNECTS) == 0
        return wasKept && response.status == 0 && now - began >= acknowledgement / 2
    }

    /// The message of its timeout.
    func lateness(now: Duration) -> String {
        if let limit, let deadline, now >= deadline {
            return "\(submission.request.origin): not finished after \(limit)"
        }
        return "\(submission.request.origin): no byte moved for \(stallTimeout)"
    }

    // MARK: The end

    /// Whether the server may carry out the request, even if the connection breaks.
    var isSent: Bool {
        begins > 0 && !submission.request.method.isSafe && sourceOffset >= submission.source?.count ?? 0
    }

    /// Ends the transfer soon. A request that was wholly sent may be carried out after later requests: only its answer shows that
    /// it was, so the transfer still waits for it a moment.
    func withdraw(now: Duration) {
        guard !isWithdrawn else { return }
        isWithdrawn = true
        deadline = min(deadline ?? now + Self.patience, now + Self.patience)
    }

    func result(_ code: CURLcode) -> Result<HTTPResponse, HTTPError> {
        if let failure { return .failure(failure) }
        if code == CURLE_OK || use == .refuse { return .success(response) }
        return .failure(HTTPError(Self.kind(of: code, on: easy), message(for: code)))
    }

    private func message(for code: CURLcode) -> String {
        "\(submission.request.origin): \(easy.message(for: code))"
    }

    private static func kind(of code: CURLcode, on easy: EasyHandle) -> HTTPError.Kind {
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT, CURLE_PROXY:
            return .unreachable
        case CURLE_OPERATION_TIMEDOUT:
            // Connecting is the only phase for which libcurl has a timeout.
            return .unreachable
        case CURLE_SSL_CONNECT_ERROR:
            // A connection that breaks in the handshake has this code too; only OpenSSL's text distinguishes it.
            let text = easy.message(for: code)
            return text.contains("SSL_ERROR_SYSCALL") || text.contains("reset by peer") ? .unreachable : .insecure
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_USE_SSL_FAILED:
            return .insecure
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING:
            return .malformed
        case CURLE_URL_MALFORMAT:
            return .invalidRequest
        default:
            return .interrupted
        }
    }

    // MARK: Callbacks

    /// Called when the request is sent. False ends the transfer: when a kept connection breaks before an answer, libcurl sends a
    /// request without a body again without a report, though the server may have acted. It must also not go from one dead
    /// connection to the next of the same age.
    func begin(localPort: CInt) -> Bool {
        begins += 1
        if submission.sent != nil { socket = sockets.find(localPort: localPort) }
        guard begins > 1 else { return true }
        if submission.request.method.isSafe, SystemTime().uptime() - began < acknowledgement / 2 { return true }
        failure = HTTPError(.interrupted, "\(submission.request.origin): the connection broke before an answer came")
        return false
    }

    /// Takes one header line, with its line end. False ends the transfer.
    func receiveHeader(_ line: UnsafeRawBufferPointer) -> Bool {
        let text = line.prefix { $0 != 13 && $0 != 10 }
        if text.isEmpty { return finishHeaders() }
        if text.starts(with: "HTTP/".utf8) {
            // A status line begins a new head: answers of class 1xx come before the final one.
            response = HTTPResponse(status: easy.long(CURLINFO_RESPONSE_CODE))
            return true
        }
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")) else { return true }
        let isBlank: (UInt8) -> Bool = { $0 == 32 || $0 == 9 }
        var value = text[(colon + 1)...].drop(while: isBlank)
        while let last = value.last, isBlank(last) { value.removeLast() }
        response.headers.add(String(decoding: text[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self))
        return true
    }

    private func finishHeaders() -> Bool {
        guard response.status >= 200 else { return true }
        // Trailers end with an empty line as well; the use is decided once.
        if use == nil { use = submission.bodyUse(response) }
        return use != .refuse
    }

    /// The result of a callback that libcurl calls for bytes.
    enum Step<Value> {
        case done(Value)
        /// libcurl calls again after `resume`.
        case later
        case failed
    }

    /// The rate limit of a direction has room again. May call back before it returns.
    func resume(_ direction: Pacing.Direction) {
        paused.remove(direction)
        easy.resume(except: paused.reduce(0) { $0 | $1.mask })
    }

    /// Tells how much of the body has left this machine: of what libcurl has sent, some waits in the connection's send queue until
    /// the other end acknowledges it. Called before each read of the body.
    private func tellSent() {
        guard let sent = submission.sent else { return }
        let waiting = socket.map(ConnectionSockets.unacknowledgedBytes) ?? 0
        sent.reach(max(0, easy.offset(CURLINFO_SIZE_UPLOAD_T) - waiting))
    }

    private func pause(_ direction: Pacing.Direction) {
        paused.insert(direction)
        hasWaited = true
    }

    /// Takes bytes of the body.
    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> Step<Void> {
        guard pacing.allowance(.receive, for: self, moved: received) > 0 else {
            pause(.receive)
            return .later
        }
        pacing.take(.receive, bytes.count)
        received += Int64(bytes.count)
        traffic.receive(bytes.count)
        if use == .deliver, let sink = submission.sink {
            do {
                try sink.receive(bytes.bytes)
                response.delivered += Int64(bytes.count)
                return .done(())
            } catch {
                failure = HTTPError(error)
                return .failed
            }
        }
        let room = submission.request.collectLimit - response.body.count
        response.body.append(contentsOf: bytes.prefix(max(room, 0)))
        // The beginning of an error document is enough; a part of another answer is useless.
        guard bytes.count > room, response.isSuccess else { return .done(()) }
        failure = HTTPError(
            .tooLarge,
            "\(submission.request.origin): the answer is longer than \(submission.request.collectLimit) bytes")
        return .failed
    }

    /// Fills `buffer` from the source.
    func readBody(into buffer: UnsafeMutableRawBufferPointer) -> Step<Int> {
        guard let source = submission.source else { return .done(0) }
        tellSent()
        var wanted = Int(min(Int64(buffer.count), source.count - sourceOffset))
        guard wanted > 0 else { return .done(0) }
        wanted = min(wanted, pacing.allowance(.send, for: self, moved: sourceOffset))
        guard wanted > 0 else {
            pause(.send)
            return .later
        }
        let room = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
        var output = OutputRawSpan(buffer: room, initializedCount: 0)
        do {
            try source.read(at: sourceOffset, into: &output)
        } catch {
            failure = HTTPError(error)
            return .failed
        }
        let count = output.finalize(for: room)
        if count == 0 {
            failure = HTTPError(.local(errno: 5), "the body ended after \(sourceOffset) of \(source.count) bytes")
            return .failed
        }
        sourceOffset += Int64(count)
        pacing.take(.send, count)
        traffic.send(count)
        return .done(count)
    }

    // MARK: Setting up

    private func configure(_ options: HTTPOptions) {
        let request = submission.request
        easy.reset()
        easy.set(CURLOPT_URL, "\(request.origin)\(request.target)")
        easy.set(CURLOPT_PATH_AS_IS, true)
        easy.set(CURLOPT_PROTOCOLS_STR, "http,https")
        easy.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        easy.set(CURLOPT_NOSIGNAL, true)
        // Ending a transfer does not wait for a thread that still resolves its name.
        easy.set(CURLOPT_QUICK_EXIT, true)
        easy.set(CURLOPT_USERAGENT, options.userAgent)
        easy.set(CURLOPT_BUFFERSIZE, 512 << 10)
        easy.set(CURLOPT_UPLOAD_BUFFERSIZE, 512 << 10)
        let connectTimeout = min(options.connectTimeout, request.connectTimeout ?? options.connectTimeout)
        easy.set(CURLOPT_CONNECTTIMEOUT_MS, connectTimeout.milliseconds)
        easy.set(CURLOPT_TCP_KEEPALIVE, true)
        easy.set(CURLOPT_TCP_KEEPIDLE, 30)
        easy.set(CURLOPT_TCP_KEEPINTVL, 15)
        easy.setSocket(CurlCallbacks.socket)
        easy.set(CURLOPT_SOCKOPTDATA, Unmanaged.passUnretained(self).toOpaque())
        easy.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, true)
        if let caFile = options.caFile {
            easy.set(CURLOPT_CAINFO, caFile)
            // The system's directory of certificates would be trusted as well.
            easy.clear(CURLOPT_CAPATH)
        }
        if let certificate = options.clientCertificate {
            easy.set(CURLOPT_SSLCERT, certificate.file)
            easy.set(CURLOPT_SSLKEY, certificate.keyFile ?? certificate.file)
        }
        if let proxy = options.proxy { easy.set(CURLOPT_PROXY, proxy) }
        if request.avoidsProxy { easy.set(CURLOPT_NOPROXY, "*") }
        if let resolver = options.dnsOverHTTPS { easy.set(CURLOPT_DOH_URL, resolver) }

        let context = Unmanaged.passUnretained(self).toOpaque()
        easy.set(CURLOPT_HEADERFUNCTION, CurlCallbacks.header)
        easy.set(CURLOPT_HEADERDATA, context)
        easy.set(CURLOPT_WRITEFUNCTION, CurlCallbacks.write)
        easy.set(CURLOPT_WRITEDATA, context)
        easy.setBegin(CurlCallbacks.begin)
        easy.set(CURLOPT_PREREQDATA, context)
        configureMethod(request, context)
        configureHeaders(request)
    }

    private func configureMethod(_ request: HTTPRequest, _ context: UnsafeMutableRawPointer) {
        switch request.method {
        case .head:
            easy.set(CURLOPT_NOBODY, true)
        case .get where submission.source == nil:
            easy.set(CURLOPT_HTTPGET, true)
        case .delete where submission.source == nil, .options where submission.source == nil:
            easy.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
        case .get, .put, .post, .delete, .options:
            easy.set(CURLOPT_UPLOAD, true)
            easy.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
            easy.set(CURLOPT_INFILESIZE_LARGE, offset: submission.source?.count ?? 0)
            easy.set(CURLOPT_READFUNCTION, CurlCallbacks.read)
            easy.set(CURLOPT_READDATA, context)
            easy.setSeek(CurlCallbacks.seek)
        }
    }

    private func configureHeaders(_ request: HTTPRequest) {
        var lines = request.headers.fields.map { field in
            // libcurl's syntax for a field without a value; `name:` would remove the field.
            field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)"
        }
        lines.append(request.expectsRefusal ? "Expect: 100-continue" : "Expect:")
        if request.headers["host"] == nil { lines.append("Host: \(request.origin.authority)") }
        for line in lines { headerList = curl_slist_append(headerList, line) }
        easy.set(CURLOPT_HTTPHEADER, UnsafeMutableRawPointer(headerList))
    }
}

extension Duration {
    /// Whole milliseconds, rounded up.
    var milliseconds: Int {
        let (seconds, attoseconds) = components
        return Int(seconds) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
