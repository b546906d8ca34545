import CCurl

/// One libcurl easy handle with its error text, reused by one transfer after another. Belongs to the engine's thread.
final class EasyHandle {
    let pointer: UnsafeMutableRawPointer
    private let errorText: UnsafeMutablePointer<CChar>

    /// curl_easy_init; nil when there is no memory.
    init?() {
        guard let pointer = curl_easy_init() else { return nil }
        self.pointer = pointer
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    }

    deinit {
        curl_easy_cleanup(pointer)
        errorText.deallocate()
    }

    /// libcurl's message about the failure of the last transfer.
    func message(for code: CURLcode) -> String {
        errorText.pointee == 0 ? String(cString: curl_easy_strerror(code)) : String(cString: errorText)
    }

    /// Resets everything but connections, names and TLS sessions (curl_easy_reset).
    func reset() {
        curl_easy_reset(pointer)
        errorText.pointee = 0
        set(CURLOPT_ERRORBUFFER, UnsafeMutableRawPointer(errorText))
    }

    // Options fail only when libcurl was built without them or there is no memory; neither can be corrected here, and the
    // transfer then fails by itself.
    func set(_ option: CURLoption, _ value: Int) { _ = curl_shim_set_long(pointer, option, value) }
    func set(_ option: CURLoption, _ value: Bool) { _ = curl_shim_set_long(pointer, option, value ? 1 : 0) }
    func set(_ option: CURLoption, offset: Int64) {
        _ = curl_shim_set_offset(pointer, option, curl_off_t(offset))
    }
    func set(_ option: CURLoption, _ value: String) { _ = curl_shim_set_text(pointer, option, value) }
    /// Removes a text option that libcurl has a default for.
    func clear(_ option: CURLoption) { _ = curl_shim_set_text(pointer, option, nil) }
    func set(_ option: CURLoption, _ value: UnsafeMutableRawPointer?) {
        _ = curl_shim_set_pointer(pointer, option, value)
    }
    func set(_ option: CURLoption, _ callback: @escaping curl_shim_transfer_callback) {
        _ = curl_shim_set_transfer_callback(pointer, option, callback)
    }
    func setSeek(_ callback: @escaping curl_seek_callback) { _ = curl_shim_set_seek_callback(pointer, callback) }

    func setBegin(_ callback: @escaping curl_prereq_callback) { _ = curl_shim_set_begin_callback(pointer, callback) }

    func setSocket(_ callback: @escaping curl_sockopt_callback) {
        _ = curl_shim_set_socket_callback(pointer, callback)
    }

    /// Resumes both directions except those of `paused` (CURLPAUSE_…); may call back before it returns.
    func resume(except paused: CInt) { _ = curl_easy_pause(pointer, paused) }

    func long(_ info: CURLINFO) -> Int { curl_shim_info_long(pointer, info) }
    func offset(_ info: CURLINFO) -> Int64 { Int64(curl_shim_info_offset(pointer, info)) }
}
